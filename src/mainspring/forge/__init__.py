"""Pages about source files: what a file defines is read from its syntax tree, what it is for is drafted by a
model in pieces that fit its window, checked, judged, and on record by the content of the file."""
