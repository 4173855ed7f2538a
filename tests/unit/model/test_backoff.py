from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from agent_harness.model.backoff import CEILING_S, LONGEST_ASKED_S, wait_s


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 10_000))
def test_waits_double_up_to_a_minute_and_never_vanish(attempt: int) -> None:
    whole = min(2.0 ** min(attempt - 1, 100), CEILING_S)
    assert whole / 2 <= wait_s(attempt, None) <= whole


@settings(max_examples=100, deadline=None)
@given(st.floats(-10, 10_000), st.integers(1, 20))
def test_what_the_provider_asks_for_is_kept_and_bounded(asked: float, attempt: int) -> None:
    kept = min(max(asked, 0.0), LONGEST_ASKED_S)
    assert kept <= wait_s(attempt, asked) <= kept * 1.1


def test_sessions_that_failed_together_do_not_come_back_together() -> None:
    assert len({wait_s(3, None) for _ in range(20)}) > 10
