from billing import bill

ORDERS = [
    {"item": "lamp", "price": 40.0, "discount": 25},
    {"item": "desk", "price": 120.0},
]
if __name__ == "__main__":
    print(bill(ORDERS))
