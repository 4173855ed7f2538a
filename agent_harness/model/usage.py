"""Reads the usage block of a provider, whichever dialect it speaks."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import cast

from agent_harness.budget import Usage


def read_usage(raw: object) -> Usage | None:
    """The tokens of one request; None when the block is missing, all zeros, negative or no numbers: then they are unknown.

    Cached tokens count as part of the input whether the provider reports them inside its prompt count (`prompt_tokens_details`)
    or beside it (`cache_read_input_tokens`). More cached tokens than prompt tokens make the larger figure the prompt.
    """
    if not isinstance(raw, dict):
        return None
    usage = cast("dict[str, object]", raw)
    try:
        tokens = _beside(usage) if "input_tokens" in usage else _inside(usage)
    except ValueError:
        return None
    if tokens.input_tokens == tokens.output_tokens == 0:
        return None
    return tokens


def _inside(usage: Mapping[str, object]) -> Usage:
    prompt_details = _mapping(usage.get("prompt_tokens_details"))
    completion_details = _mapping(usage.get("completion_tokens_details"))
    # DeepSeek reports its cache in fields of its own beside the prompt count that includes it.
    cached = _count(prompt_details.get("cached_tokens", usage.get("prompt_cache_hit_tokens")))
    written = _count(prompt_details.get("cache_write_tokens"))
    return Usage(
        input_tokens=max(_count(usage.get("prompt_tokens")), cached + written),
        output_tokens=_count(usage.get("completion_tokens")),
        cached_tokens=cached,
        cache_write_tokens=written,
        reasoning_tokens=_count(completion_details.get("reasoning_tokens")),
        cost_usd=_cost(usage),
    )


def _beside(usage: Mapping[str, object]) -> Usage:
    cached = _count(usage.get("cache_read_input_tokens"))
    written = _count(usage.get("cache_creation_input_tokens"))
    return Usage(
        input_tokens=_count(usage.get("input_tokens")) + cached + written,
        output_tokens=_count(usage.get("output_tokens")),
        cached_tokens=cached,
        cache_write_tokens=written,
        cost_usd=_cost(usage),
    )


def _cost(usage: Mapping[str, object]) -> Decimal | None:
    """OpenRouter's `cost` is what it charges; with a key of one's own at the provider behind it, that one charges as well."""
    cost = _dollars(usage.get("cost"))
    if cost is not None and usage.get("is_byok") is True:
        cost += _dollars(_mapping(usage.get("cost_details")).get("upstream_inference_cost")) or 0
    return cost


def _dollars(value: object) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        amount = Decimal(str(value))
    except InvalidOperation:
        return None
    return amount if amount.is_finite() and amount >= 0 else None


def _count(value: object) -> int:
    """A number of tokens; absent counts as none. Some providers write numbers as strings or floats."""
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError(f"{value!r} is no number of tokens")
    try:
        count = int(value)
    except OverflowError as error:
        raise ValueError(f"{value!r} is no number of tokens") from error
    if count < 0:
        raise ValueError(f"{value!r} tokens is below zero")
    return count


def _mapping(value: object) -> Mapping[str, object]:
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}
