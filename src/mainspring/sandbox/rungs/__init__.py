"""The ways to confine a command, one file each, and what they share."""
