"""Journals in a Postgres database that many machines share.

The same events, hash chain and blobs as in a SQLite file. Who may write is decided by the database: a lease
with a number (its epoch) and an end by the database's clock, which every append checks in its own statement.
A stalled owner that wakes up writes nothing. Nothing here relies on the state of a connection, so poolers
that give each transaction another one can stand between.
"""
