"""What a model costs, from the data of the `genai-prices` package: the copy that is installed, never fetched at run time."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING

from agent_harness.budget import Price

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo, ModelPrice


def price_of(model: str, base_url: str, max_prompt_tokens: int | None = None) -> Price | None:
    """US dollars per million tokens of that model at that endpoint; None when either is not in the data.

    Where the price depends on the size of the prompt or on the time of day, the dearest one that can apply is given, so that a
    reservation is never too small. A model that costs something else beside tokens for each request has no price here: a token
    price alone would promise too little.

    It imports the data (about 50 ms once the SDK is imported), so call it in a thread.

    Args:
        model: the name as it is sent.
        base_url: of the endpoint; a model's price is known only at a provider whose address is known.
        max_prompt_tokens: no prompt is longer than this, so tiers that begin there or later can't apply; None = any length.
    """
    from genai_prices.data_snapshot import get_snapshot

    try:
        _, info = get_snapshot().find_provider_model(model, None, None, base_url)
    except LookupError:
        return None
    return _dearest(_candidates(info, datetime.now(UTC)), max_prompt_tokens)


def _candidates(info: ModelInfo, now: datetime) -> list[ModelPrice]:
    """The standing price now, and the ones of other times of the day."""
    from genai_prices.types import TimeOfDateConstraint

    found = [info.get_prices(now)]
    if isinstance(info.prices, list):
        found += [each.prices for each in info.prices if isinstance(each.constraint, TimeOfDateConstraint)]
    return found


def _dearest(prices: list[ModelPrice], max_prompt_tokens: int | None) -> Price | None:
    def most(*keys: str) -> Decimal | None:
        tops = (_top(price.__dict__.get(key), max_prompt_tokens) for price in prices for key in keys)
        return max((top for top in tops if top is not None), default=None)

    plain = most("input_mtok")
    # Reasoning is part of the output in every usage report, so the dearer of the two prices bounds it.
    output = most("output_mtok", "output_reasoning_mtok")
    if plain is None or output is None or most("requests_kcount"):
        return None
    return Price(plain, output, most("cache_read_mtok"), most("cache_write_mtok"))


def _top(value: object, max_prompt_tokens: int | None) -> Decimal | None:
    """The dearest tier that a prompt of at most that size can reach; None when there is no usable price."""
    from genai_prices.types import TieredPrices

    if isinstance(value, TieredPrices):
        reached = [tier.price for tier in value.tiers if max_prompt_tokens is None or tier.start < max_prompt_tokens]
        return max([value.base, *reached])
    return value if isinstance(value, Decimal) and value.is_finite() and value >= 0 else None
