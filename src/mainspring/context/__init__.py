"""What the model sees: projections from a journal to a request, pure and incremental."""
