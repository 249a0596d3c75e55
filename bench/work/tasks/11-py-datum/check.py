import datetime

from datum import lies_datum

assert lies_datum("31.12.2025") == datetime.date(2025, 12, 31)
assert lies_datum(" 1.2.2025 ") == datetime.date(2025, 2, 1)
assert lies_datum("29.02.2024") == datetime.date(2024, 2, 29)
try:
    lies_datum("31.02.2025")
except ValueError:
    pass
else:
    raise AssertionError("31.02.2025")
