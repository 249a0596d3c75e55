"""mainspring as an MCP server: other programs start, steer and watch its sessions. Needs the extra `mcp`."""
