"""mainspring as an agent of the Agent Client Protocol: editors and other clients drive it over stdio.

Sessions are ordinary journals. This room translates and decides nothing: what a client asks for is an
operation, or a command to an open session; what is recorded becomes the protocol's updates.
"""
