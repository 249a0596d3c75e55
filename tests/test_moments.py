"""Times that no calendar has are shown, wherever times are."""

from datetime import UTC

import pytest

from mainspring.catalog.fold import local_day
from mainspring.documents import figures
from mainspring.report import describe
from mainspring.waits.describe import clock

BEYOND = [10**18, 10**30, 253_402_300_800_000_000]


@pytest.mark.parametrize("time_us", BEYOND)
def test_a_time_beyond_all_dates_is_shown_as_the_last(time_us: int) -> None:
    assert clock(time_us).startswith("9999-12-3")
    assert figures.when(time_us).startswith("9999-12-3")
    assert figures.local_time(time_us, UTC).startswith("9999-12-3")
    assert describe.when(time_us).startswith("9999-12-3")
    assert local_day(time_us).startswith("9999-12-3")


def test_a_time_before_all_dates_is_shown_as_the_first() -> None:
    assert clock(-(10**18)) == "1970-01-01T00:00:00Z"
