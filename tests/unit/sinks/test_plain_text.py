"""What reaches a terminal is text, and fits."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from agent_harness.sinks.plain_text import cells, clip, lines, one_line


def test_an_escape_sequence_is_written_out() -> None:
    assert one_line("\x1b]0;title\x07 \x1b[2J") == "\\x1b]0;title\\x07 \\x1b[2J"
    assert lines("a\x1b[31mb\x9b1m") == "a\\x1b[31mb\\x9b1m"


def test_line_ends_stay_in_text_and_become_blanks_in_one_line() -> None:
    assert lines("a\r\nb\tc\rd") == "a\nb    c\\x0dd"
    assert one_line("a\r\nb\tc\n\n d") == "a b c d"


def test_a_direction_mark_is_written_out() -> None:
    assert one_line("safe\u202etxt.exe") == "safe\\u202etxt.exe"


def test_wide_characters_take_two_cells_and_combining_ones_none() -> None:
    assert cells("漢字") == 4
    assert cells("e\u0301") == 1


def test_a_long_line_is_clipped_by_its_cells() -> None:
    assert clip("abcdefghij", 8) == "abcde..."
    assert clip("漢字漢字漢字", 8) == "漢字..."
    assert clip("short", 8) == "short"


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=80), st.integers(4, 40))
def test_a_clipped_line_never_takes_more_cells_than_it_may(text: str, width: int) -> None:
    assert cells(clip(text, width)) <= width


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=80))
def test_no_control_character_is_left(text: str) -> None:
    assert not any(ord(char) < 32 or 127 <= ord(char) < 160 for char in one_line(text))
    assert not any(ord(char) < 32 or 127 <= ord(char) < 160 for char in lines(text).replace("\n", ""))
