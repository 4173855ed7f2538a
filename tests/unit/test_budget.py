"""No ceiling is ever overshot, most of each can be spent, and money is exact."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_harness.budget import Budget, Price, Usage, exact
from agent_harness.errors import BudgetExceeded
from agent_harness.task import Limits

DEAR = Price(Decimal(3), Decimal(15), cached=Decimal("0.3"), cache_write=Decimal("3.75"))


def limits(**changed: object) -> Limits:
    return Limits(**{"max_turns": 1_000, "max_tokens": 10**9, "max_cost_usd": None, **changed})  # pyright: ignore[reportArgumentType]


def spend(budget: Budget, prompt: int, said: int) -> None:
    held = budget.reserve(prompt, "turn")
    budget.settle(held, Usage(prompt, min(said, held.completion_tokens)))


@given(
    ceiling=st.integers(100, 50_000),
    requests=st.lists(st.tuples(st.integers(1, 8_000), st.integers(1, 4_000)), max_size=40),
)
@settings(max_examples=200, deadline=None)
def test_no_sequence_of_requests_crosses_the_token_ceiling(ceiling: int, requests: list[tuple[int, int]]) -> None:
    budget = Budget(limits(max_tokens=ceiling), None)
    kinds: set[tuple[str, str]] = set()
    for prompt, said in requests:
        try:
            spend(budget, prompt, said)
        except BudgetExceeded as error:
            kinds.add((error.kind, error.flag))
        assert budget.tokens <= ceiling
    assert kinds <= {("max_tokens", "--max-tokens")}


@given(
    cents=st.integers(1, 300),
    requests=st.lists(st.tuples(st.integers(1, 60_000), st.integers(1, 4_000), st.integers(0, 60_000)), max_size=40),
)
@settings(max_examples=200, deadline=None)
def test_no_sequence_of_requests_crosses_the_dollar_ceiling(cents: int, requests: list[tuple[int, int, int]]) -> None:
    ceiling = Decimal(cents) / 100
    budget = Budget(limits(max_cost_usd=ceiling), DEAR)
    for prompt, said, written in requests:
        try:
            held = budget.reserve(prompt, "turn")
        except BudgetExceeded:
            continue
        budget.settle(held, Usage(prompt, min(said, held.completion_tokens), cache_write_tokens=min(written, prompt)))
        assert budget.cost_usd is not None
        assert budget.cost_usd <= ceiling


def test_requests_under_way_at_the_same_time_share_what_is_left() -> None:
    budget = Budget(limits(max_tokens=10_000), None)
    first = budget.reserve(3_000, "turn")
    second = budget.reserve(2_000, "compaction")
    assert first.tokens + second.tokens <= 10_000
    with pytest.raises(BudgetExceeded):
        budget.reserve(2_000, "turn")
    budget.release(second)
    assert budget.reserve(2_000, "turn").completion_tokens == 1_000


def test_the_completion_cap_shrinks_to_what_still_fits() -> None:
    budget = Budget(limits(max_tokens=10_000), None)
    assert budget.reserve(9_000, "turn").completion_tokens == 1_000


def test_at_least_nine_tenths_of_a_token_ceiling_can_be_spent() -> None:
    budget = Budget(limits(max_tokens=200_000), None)
    prompt = 2_000
    while budget.last_before(prompt, 1_500) is None:
        spend(budget, prompt, 300)
        prompt += 500
    spend(budget, prompt, 4_000)
    assert budget.tokens >= 180_000


def test_every_request_before_the_last_leaves_room_for_another() -> None:
    budget = Budget(limits(max_tokens=50_000), None)
    prompt = 1_000
    while budget.last_before(prompt, 1_500) is None:
        held = budget.reserve(prompt, "turn")
        budget.settle(held, Usage(prompt, held.completion_tokens))
        prompt += held.completion_tokens + 1_500
    assert budget.reserve(prompt, "turn").completion_tokens >= 64


def test_the_turn_ceiling_is_named_with_its_flag() -> None:
    budget = Budget(limits(max_turns=2), None)
    assert budget.last_before(10, 10) is None
    assert budget.open_turn() == 1
    last = budget.last_before(10, 10)
    assert last is not None
    assert last.kind == "max_turns"
    assert "--max-turns" in str(last)
    assert budget.open_turn() == 2
    with pytest.raises(BudgetExceeded):
        budget.open_turn()


def test_missing_usage_is_charged_at_the_reservation() -> None:
    budget = Budget(limits(), DEAR)
    held = budget.reserve(1_000, "turn")
    charged, cost = budget.settle(held, None)
    assert (charged.input_tokens, charged.output_tokens) == (1_000, 4_000)
    assert cost == Decimal("0.063")


def test_each_kind_of_token_has_its_own_price() -> None:
    usage = Usage(12_000, 100, cached_tokens=9_000, cache_write_tokens=2_000)
    assert DEAR.of(usage) == Decimal("0.0147")


def test_an_unknown_cost_is_unknown_and_not_zero() -> None:
    budget = Budget(limits(), None)
    held = budget.reserve(100, "turn")
    _, cost = budget.settle(held, Usage(100, 10))
    assert cost is None
    assert budget.cost_usd is None
    assert budget.tokens == 110


def test_the_providers_own_figure_wins_over_the_price_list() -> None:
    budget = Budget(limits(), DEAR)
    budget.settle(budget.reserve(100, "turn"), Usage(100, 10, cost_usd=Decimal("0.5")))
    assert budget.cost_usd == Decimal("0.5")


def test_sums_are_exact_over_many_tiny_amounts() -> None:
    total = Decimal(0)
    for _ in range(100_000):
        total = exact(total + Decimal("0.0000001"))
    assert total == Decimal("0.01")


def test_a_known_price_of_zero_is_shown_as_zero() -> None:
    budget = Budget(limits(max_cost_usd=Decimal(0)), Price(Decimal(0), Decimal(0)))
    budget.settle(budget.reserve(5_000, "turn"), Usage(5_000, 500))
    assert budget.cost_usd == 0


def test_a_ceiling_is_near_from_the_given_share_on() -> None:
    budget = Budget(limits(max_tokens=1_000), None)
    assert budget.near(0.8) == ""
    budget.settle(budget.reserve(700, "turn"), Usage(700, 110))
    assert "--max-tokens" in budget.near(0.8)
