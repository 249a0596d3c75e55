def add_item(item, basket=None):
    """Add an item to a basket, or to a new one, and return the basket."""
    if basket is None:
        basket = []
    basket.append(item)
    return basket
