"""Public fakes and conformance suites: what a test of mainspring, or of a part for it, can build on."""
