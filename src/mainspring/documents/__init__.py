"""Documents for people: blocks of text, written as Markdown or HTML."""
