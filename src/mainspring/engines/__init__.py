"""Who can take a turn. The port is `mainspring.turns.runtime.Engine`."""
