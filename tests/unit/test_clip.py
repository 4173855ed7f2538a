"""Clipped text stays within its window, keeps head and tail and says what is missing."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from agent_harness.clip import clip


def repeated(text: str, times: int) -> str:
    return text * times


LONG = st.builds(repeated, st.text(min_size=1, max_size=40), st.integers(1, 120))


@given(LONG, st.integers(200, 1_000))
@settings(max_examples=200, deadline=None)
def test_the_window_is_never_passed(text: str, limit: int) -> None:
    clipped, cut = clip(text, limit)
    assert len(clipped) <= limit
    assert cut == (len(text) > limit)
    if not cut:
        assert clipped == text


def test_head_and_tail_are_kept_at_line_ends() -> None:
    text = "".join(f"line {number}\n" for number in range(1_000))
    clipped, cut = clip(text, 400)
    assert cut
    assert clipped.startswith("line 0\nline 1\n")
    assert clipped.endswith("line 999\n")
    assert len(clipped) <= 400
    assert "characters left out ...]\nline" in clipped
