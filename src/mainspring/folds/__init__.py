"""What a journal says now, folded from its events: state, ledger, caps, task, processes, waits."""
