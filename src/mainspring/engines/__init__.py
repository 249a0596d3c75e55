"""Who can take a turn. The port is `mainspring.turn.Engine`."""
