"""Writes the shipped table of prices from the installed genai-prices: `make prices`."""

from datetime import UTC, datetime

from mainspring.models.priceimport import encode_table, import_table
from mainspring.models.pricelist import SHIPPED, read_table

before = read_table(SHIPPED) if SHIPPED.exists() else None
table = import_table(datetime.now(UTC).date())
if before and before.providers == table.providers and before.version == table.version:
    print(f"nothing new: {before}")
else:
    SHIPPED.write_bytes(encode_table(table))
    print(f"{SHIPPED.name}: {table}")
