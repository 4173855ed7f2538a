from __future__ import annotations

import json
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_harness.budget import Price, Usage
from agent_harness.model.usage import read_usage

CASE = Path(__file__).parents[2] / "cases" / "peers" / "d12-usage-price" / "build.py"
GOOD = ("plain", "cached_inside", "cached_beside", "reasoning_inside", "cached_null", "free")


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("d12") / "out"
    subprocess.run([sys.executable, str(CASE), str(out)], check=True)
    return out


def block(case: Path, name: str) -> tuple[str, object]:
    rows = cast("list[dict[str, object]]", json.loads((case / "usage.json").read_text()))
    row = next(row for row in rows if row["case"] == name)
    return str(row["model"]), row["usage"]


@pytest.mark.parametrize("name", GOOD)
def test_a_good_block_costs_what_it_should_to_the_micro_dollar(case: Path, name: str) -> None:
    model, raw = block(case, name)
    prices = json.loads((case / "prices.json").read_text(), parse_float=Decimal, parse_int=Decimal)[model]
    price = Price(prices["in"], prices["out"], prices["cached_in"], prices["cache_write"])
    expected = json.loads((case / "expected.json").read_text())[name]
    usage = read_usage(raw)
    if usage is None:
        raise AssertionError(name)
    assert price.of(usage) * 1_000_000 == expected["micro_dollars"]
    assert usage.input_tokens + usage.output_tokens == expected["session_tokens"]


@pytest.mark.parametrize("name", ["missing", "zeros", "negative"])
def test_a_block_that_says_nothing_usable_is_unknown(case: Path, name: str) -> None:
    assert read_usage(block(case, name)[1]) is None


def test_more_cached_than_prompt_tokens_charges_the_larger_figure(case: Path) -> None:
    assert read_usage(block(case, "cached_more_than_prompt")[1]) == Usage(50, 1, cached_tokens=50)


def test_numbers_as_text_are_read(case: Path) -> None:
    assert read_usage(block(case, "strings")[1]) == Usage(1000, 200)


def test_the_providers_own_cost_is_exact_and_includes_the_provider_behind_it() -> None:
    raw: dict[str, object] = {"prompt_tokens": 10, "completion_tokens": 2, "cost": 0.1}
    byok = {**raw, "is_byok": True, "cost_details": {"upstream_inference_cost": 0.2}}
    assert read_usage(raw) == Usage(10, 2, cost_usd=Decimal("0.1"))
    assert read_usage(byok) == Usage(10, 2, cost_usd=Decimal("0.3"))


@pytest.mark.parametrize("cost", [-1, True, None, "much", {"total": 1}, float("nan"), float("inf")])
def test_a_cost_that_is_no_amount_is_unknown(cost: object) -> None:
    assert read_usage({"prompt_tokens": 10, "completion_tokens": 2, "cost": cost}) == Usage(10, 2)


def test_tokens_read_from_and_written_to_the_cache_are_kept_apart() -> None:
    details = {"cached_tokens": 30, "cache_write_tokens": 20}
    raw = {"prompt_tokens": 100, "completion_tokens": 9, "prompt_tokens_details": details}
    assert read_usage(raw) == Usage(100, 9, cached_tokens=30, cache_write_tokens=20)
    assert read_usage({"prompt_tokens": 100, "completion_tokens": 9, "prompt_cache_hit_tokens": 64}) == Usage(
        100, 9, cached_tokens=64
    )


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
names = st.sampled_from(
    [
        "prompt_tokens",
        "completion_tokens",
        "prompt_tokens_details",
        "cost",
        "input_tokens",
        "output_tokens",
        "cache_read_input_tokens",
    ]
)


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(names, anything) | anything)
def test_any_block_gives_counts_that_are_not_negative_or_nothing(raw: object) -> None:
    usage = read_usage(raw)
    if usage is not None:
        assert usage.input_tokens + usage.output_tokens > 0
        assert min(usage.input_tokens, usage.output_tokens, usage.cached_tokens, usage.cache_write_tokens) >= 0
        assert usage.cached_tokens + usage.cache_write_tokens <= usage.input_tokens
