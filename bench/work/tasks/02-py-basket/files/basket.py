def add_item(item, basket=[]):
    """Add an item to a basket, or to a new one, and return the basket."""
    basket.append(item)
    return basket
