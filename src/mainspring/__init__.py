"""An agent runtime that you can leave alone for days."""

__version__ = "0.1.0"
