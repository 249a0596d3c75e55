"""One turn: the loop and its parts."""
