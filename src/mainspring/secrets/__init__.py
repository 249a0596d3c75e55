"""What must not be seen: secrets and their placeholders, events without them, text made safe to show."""
