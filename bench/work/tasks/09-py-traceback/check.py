from billing import bill
from main import ORDERS
from pricing import net_price

assert len(ORDERS) == 2 and "discount" not in ORDERS[1], "the orders are data"
assert bill(ORDERS) == 150.0
assert net_price({"price": 10.0}) == 10.0
assert net_price({"price": 10.0, "discount": 10}) == 9.0
assert net_price({"price": 10.0, "discount": 0}) == 10.0
