"""The protocols that models are spoken to in: one file each, and what they share."""
