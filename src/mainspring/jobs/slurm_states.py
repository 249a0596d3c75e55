"""The words of Slurm for the state of a job."""

from __future__ import annotations

from mainspring.events import JobState

_ENDED: dict[str, JobState] = {
    "COMPLETED": "done",
    "CANCELLED": "cancelled",
    "REVOKED": "cancelled",
    "TIMEOUT": "timed_out",
    "DEADLINE": "timed_out",
    "BOOT_FAIL": "failed",
    "FAILED": "failed",
    "LAUNCH_FAILED": "failed",
    "NODE_FAIL": "failed",
    "OUT_OF_MEMORY": "failed",
    "PREEMPTED": "failed",
    "RECONFIG_FAIL": "failed",
}
ENDED_WORDS = frozenset(_ENDED)
_QUEUED = frozenset(("PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT"))


def slurm_word(text: str) -> str:
    """`CANCELLED by 1000` and `COMPLETED+` are states too."""
    return (text.split() or [""])[0].rstrip("+").upper()


def slurm_state(text: str) -> JobState:
    """A word that is not known is that of a job which has not ended."""
    word = slurm_word(text)
    return _ENDED.get(word, "queued" if word in _QUEUED else "running")
