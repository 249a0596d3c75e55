"""What a person reads about a goal: a `Report` projected from the journal, and two ways to write it down.

`reading` folds the journal into `facts`, `layout` says in which order they are told, `markdown` and `html`
write that down. Whatever is claimed names the event that it was recorded in.
"""
