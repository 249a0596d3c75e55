"""Measurements, each against a floor measured in the same run: `make bench`, or `python -m bench NAME`."""
