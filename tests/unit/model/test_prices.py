from __future__ import annotations

from decimal import Decimal

import pytest

from agent_harness.budget import Price, Usage
from agent_harness.model.prices import price_of

OPENAI = "https://api.openai.com/v1"
OPENROUTER = "https://openrouter.ai/api/v1"


def known(model: str, base_url: str, max_prompt_tokens: int | None = None) -> Price:
    price = price_of(model, base_url, max_prompt_tokens)
    assert price is not None
    return price


@pytest.mark.parametrize(
    ("model", "base_url"),
    [
        ("no-such-model", OPENAI),
        ("gpt-5", "http://127.0.0.1:8099/v1"),
        ("gpt-5", "https://llm.example/v1"),
        ("sonar", "https://api.perplexity.ai"),
    ],
)
def test_what_is_not_known_for_sure_has_no_price(model: str, base_url: str) -> None:
    assert price_of(model, base_url) is None


@pytest.mark.parametrize(("model", "base_url"), [("gpt-5", OPENAI), ("openai/gpt-5", OPENROUTER)])
def test_cached_tokens_have_a_price_of_their_own(model: str, base_url: str) -> None:
    price = known(model, base_url)
    assert price.cached is not None
    assert 0 < price.cached < price.input < price.output
    assert price.of(Usage(1_000_000, 0, cached_tokens=1_000_000)) == price.cached


def test_a_price_by_prompt_size_is_the_dearest_that_can_be_reached() -> None:
    short = known("claude-sonnet-4-5", "https://api.anthropic.com/v1", 200_000)
    any_length = known("claude-sonnet-4-5", "https://api.anthropic.com/v1")
    assert short.input < any_length.input
    assert short.output < any_length.output
    assert short.cache_write is not None
    assert short.cache_write > short.input
    assert any_length.worst_of(1_000_000, 0) == any_length.cache_write


def test_prices_are_exact_decimals() -> None:
    assert isinstance(known("gpt-5", OPENAI).input, Decimal)
