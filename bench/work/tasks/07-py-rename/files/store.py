ORDERS = [("pen", 3, 1.5), ("ink", 1, 7.0), ("pad", 2, 2.25)]


def get_data():
    return list(ORDERS)
