"""What a journal says now, folded from its events: state, ledger, caps, task, processes, waits."""

CHECKPOINT_FILE = "folds.cache"
"""In the folder of a session: what its journal said when it was last kept. A cache."""
