from store import load_orders


def invoice_lines():
    return [f"{name}: {amount} x {price:.2f}" for name, amount, price in load_orders()]
