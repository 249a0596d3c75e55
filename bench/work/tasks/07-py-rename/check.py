from pathlib import Path

import invoice
import stats
import store

assert all("get_data" not in Path(name).read_text() for name in ("store.py", "invoice.py", "stats.py"))
assert store.load_orders() == [("pen", 3, 1.5), ("ink", 1, 7.0), ("pad", 2, 2.25)]
assert invoice.invoice_lines() == ["pen: 3 x 1.50", "ink: 1 x 7.00", "pad: 2 x 2.25"]
assert stats.revenue() == 16.0
assert stats.item_count() == 6
