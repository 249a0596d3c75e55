"""Agents that work for other agents: who they are, what they get, and what comes back."""
