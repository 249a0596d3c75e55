def net_price(order):
    """The price after the discount, which is in percent."""
    return order["price"] * (100 - order.get("discount", 0)) / 100
