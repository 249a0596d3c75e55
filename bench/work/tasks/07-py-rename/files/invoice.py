from store import get_data


def invoice_lines():
    return [f"{name}: {amount} x {price:.2f}" for name, amount, price in get_data()]
