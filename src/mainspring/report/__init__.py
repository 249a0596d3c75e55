"""What a person reads about a goal: a `Report` projected from the journal, and two ways to write it down.

`reader` folds the journal into `facts`, `layout` says in which order they are told, `documents/` writes that
down. Whatever is claimed names the event that it was recorded in.
"""
