"""Public fakes, and one conformance suite per port."""
