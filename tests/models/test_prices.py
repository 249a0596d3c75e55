import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from mainspring.events import Usage
from mainspring.models import LongPrice, Price
from mainspring.models.pricelist import SHIPPED, read_table
from mainspring.models.prices import FREE, KnownPrice, PriceBook
from mainspring.models.providers import parse_model

NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)


def book(own: dict[str, Price] | None = None, refreshed: Path | None = None) -> PriceBook:
    return PriceBook(own, refreshed=refreshed, now=lambda: NOW)


def test_a_listed_model_has_prices_for_input_cache_and_output_and_a_context() -> None:
    known = book().find(parse_model("anthropic/claude-sonnet-4-6"))
    assert known == KnownPrice(Price(input=3.0, output=15.0, cached=0.3, cache_write=3.75), 1_000_000)


def test_a_large_request_costs_what_its_tier_says_for_all_of_it() -> None:
    price = book().find(parse_model("gemini/gemini-3-pro-preview")).price
    assert price is not None
    assert price.cost_usd(Usage(input_tokens=200_000, output_tokens=1_000)) == pytest.approx(0.412)
    assert price.cost_usd(Usage(input_tokens=200_001, output_tokens=1_000)) == pytest.approx(0.818004)


def test_cost_counts_each_kind_of_token_once() -> None:
    price = Price(input=10.0, output=20.0, cached=1.0, cache_write=12.5)
    usage = Usage(
        input_tokens=1_000, cached_tokens=600, cache_write_tokens=300, output_tokens=50, reasoning_tokens=40
    )
    assert price.cost_usd(usage) == pytest.approx((100 * 10 + 600 * 1 + 300 * 12.5 + 50 * 20) / 1e6)


@pytest.mark.parametrize("order", [1, -1])
def test_the_highest_tier_that_was_reached_counts(order: int) -> None:
    tiers = (LongPrice(100, Price(2.0, 2.0)), LongPrice(200, Price(3.0, 3.0)))
    price = Price(1.0, 1.0, long=tiers[::order])
    costs = [price.cost_usd(Usage(input_tokens=tokens)) * 1e6 / tokens for tokens in (100, 101, 201)]
    assert costs == pytest.approx([1.0, 2.0, 3.0])


@pytest.mark.parametrize("name", ["anthropic/claude-sonnet-4-6", "claude-sonnet-4-6"])
def test_the_users_own_price_comes_first(name: str) -> None:
    own = Price(input=1.0)
    assert book({name: own}).find(parse_model("anthropic/claude-sonnet-4-6")).price == own


def test_a_local_model_costs_nothing() -> None:
    assert book().find(parse_model("ollama/qwen3")).price == FREE


@pytest.mark.parametrize(
    "name", ["openai/gpt-unheard-of-99", "openai-compatible@https://h.example/v1#gpt-5.2", "huggingface/a/b"]
)
def test_what_nobody_lists_has_no_price(name: str) -> None:
    assert book().find(parse_model(name)) == KnownPrice()


def test_the_table_is_not_read_before_a_price_is_asked_for() -> None:
    code = (
        "import sys; from mainspring.models.prices import PriceBook;"
        "from mainspring.models.providers import parse_model;"
        "book = PriceBook(); book.find(parse_model('ollama/x'));"
        "assert 'mainspring.models.pricelist' not in sys.modules;"
        "book.find(parse_model('openai/gpt-5.2'));"
        "print('mainspring.models.pricelist' in sys.modules, 'genai_prices' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "True False\n"


def test_a_refreshed_table_counts_when_it_is_newer(tmp_path: Path) -> None:
    file = tmp_path / "price-table.json"
    shipped = SHIPPED.read_bytes()
    version = read_table(SHIPPED).version.encode()
    prices = []
    for other in (b"0.0.9", b"999.0"):
        file.write_bytes(shipped.replace(version, other, 1).replace(b'"input":1.75', b'"input":7.5'))
        found = book(refreshed=file).find(parse_model("openai/gpt-5.2")).price
        assert found is not None
        prices.append(found.input)
    assert prices == [1.75, 7.5]


@pytest.mark.parametrize("content", [b"", b"nonsense", b'{"version": 1}', b"\xff"])
def test_a_damaged_refreshed_table_is_not_used(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "price-table.json"
    file.write_bytes(content)
    assert book(refreshed=file).find(parse_model("openai/gpt-5.2")).price is not None


def test_what_the_cache_saved_is_known_and_filling_it_costs() -> None:
    price = Price(input=10, output=20, cached=1, cache_write=12.5)
    read = Usage(input_tokens=1_000_000, cached_tokens=800_000, output_tokens=5)
    assert price.saved_usd(read) == pytest.approx(0.8 * 9)
    written = Usage(input_tokens=1_000_000, cache_write_tokens=1_000_000)
    assert price.saved_usd(written) == pytest.approx(-2.5)
    assert price.saved_usd(Usage(input_tokens=1_000, output_tokens=7)) == 0
