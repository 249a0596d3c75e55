"""Hooks: commands of people that have a say before something happens, or hear of it after, in the form of
Claude Code's public contract. A hook may only tighten: it never allows what a policy does not."""
