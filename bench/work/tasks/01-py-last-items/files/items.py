def last_items(items, count):
    """Return the last `count` items of a list, in order."""
    return items[len(items) - count - 1:]
