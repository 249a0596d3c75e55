"""What work has left behind and what it proves: artifacts, metrics, claims, checks."""
