"""Durable waits: what a session sleeps for, and the one wake that ends it."""
