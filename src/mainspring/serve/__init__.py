"""The face for browsers, phones and other programs: HTTP on this machine, one endpoint per operation."""
