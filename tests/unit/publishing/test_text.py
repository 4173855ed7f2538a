from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from agent_harness.publishing.text import clip, code, fenced, head, inline, tail, units
from tests.unit.publishing.reports import parse, rendered_text

ANY = st.text(st.characters(exclude_categories=()), max_size=80)


@given(text=ANY, most=st.integers(0, 100))
@settings(max_examples=100, deadline=None)
def test_a_clipped_text_is_no_longer_than_asked_and_whole_when_it_fits(text: str, most: int) -> None:
    clipped = clip(text, most)
    assert units(clipped) <= most
    assert clipped == text or clipped == "" or clipped.endswith("…")
    if units(text) <= most:
        assert clipped == text
    assert units(head(text, most)) <= most
    assert units(tail(text, most)) <= most


def test_units_count_what_is_outside_the_basic_plane_twice() -> None:
    assert units("a\U0001f600") == 3
    assert clip("\U0001f600\U0001f600", 3) == "\U0001f600…"
    assert tail("a\U0001f600", 1) == ""


@given(text=st.text(st.sampled_from("ab *_`[]()<>&#!|~\\-+=.1@$\n"), max_size=40))
@settings(max_examples=150, deadline=None)
def test_inline_text_reads_as_it_was_written(text: str) -> None:
    shown = rendered_text(parse("x " + inline(text))).strip()
    assert shown.replace("\u200d", "") == " ".join(("x " + text).split())


@given(text=st.text(st.sampled_from("a`~<>/details-!@#1 \n"), max_size=60))
@settings(max_examples=100, deadline=None)
def test_nothing_inside_a_fence_can_close_it(text: str) -> None:
    tokens = [
        token for token in parse(f"```text\n{fenced(text)}\n```\n\nafter") if token.type in ("fence", "html_block", "inline")
    ]
    assert [token.type for token in tokens] == ["fence", "inline"]
    assert tokens[1].content == "after"


@given(text=ANY)
@settings(max_examples=60, deadline=None)
def test_a_code_span_is_one_span_whatever_it_shows(text: str) -> None:
    tokens = [token for token in parse(f"x {code(text)} y") if token.type == "code_inline"]
    assert len(tokens) == 1
