"""Stores and worker processes are those of the journal."""

from tests.journal.conftest import store, worker

__all__ = ["store", "worker"]
