"""What bytes from elsewhere can be that are not what was expected."""

from __future__ import annotations

import msgspec

DECODE_ERRORS = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What decoding raises for them: another type or no JSON, no UTF-8, or nested too deep."""
