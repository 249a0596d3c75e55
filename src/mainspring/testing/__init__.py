"""For tests of your own: a scripted model and model server, and one conformance suite per port."""
