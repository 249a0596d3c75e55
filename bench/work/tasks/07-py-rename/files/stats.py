import store


def revenue():
    return sum(amount * price for _, amount, price in store.get_data())


def item_count():
    return sum(amount for _, amount, _ in store.get_data())
