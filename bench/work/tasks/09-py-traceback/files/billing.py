from pricing import net_price


def bill(orders):
    return sum(net_price(order) for order in orders)
