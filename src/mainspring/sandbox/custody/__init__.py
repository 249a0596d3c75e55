"""Programs that stand between us and a command; they use the standard library alone.

The warden (one per sandbox) forks a guard per command in a millisecond, where a fresh interpreter
would cost twenty. A guard is the subreaper of all that its command starts, so nothing escapes it by
`setsid` or a double fork, and it ends everything when we die. A keeper is a guard that outlives us.
"""

FOLDER_FORMAT = 1
"""The version of what a keeper writes to its folder, and of the orders that it takes."""
