"""MCP servers as tools of a session: configured by the user or a project, reached through a process of ours
that alone loads the SDK (`broker.py`)."""
