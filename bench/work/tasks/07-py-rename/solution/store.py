ORDERS = [("pen", 3, 1.5), ("ink", 1, 7.0), ("pad", 2, 2.25)]


def load_orders():
    return list(ORDERS)
