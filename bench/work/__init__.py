"""Measures how much work a harness gets done with a model: see `docs/work.md`."""
