"""Text to a tree: letters beyond ASCII, which the grammar's own scanner cannot be given."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_harness.guards.machine import Unanalysed
from agent_harness.guards.parse import parse
from tests.fakes.judging import refused, verdict

NAKED = """
import tree_sitter_bash
from tree_sitter import Language, Parser
parse = Parser(Language(tree_sitter_bash.language())).parse
for code in range(0x10000, 0x110000, 997):
    parse(("echo a{" + chr(code)).encode())
"""
OURS = """
from agent_harness.guards.machine import Unanalysed
from agent_harness.guards.parse import parse
for code in range(0x10000, 0x110000, 997):
    try:
        parse("echo a{" + chr(code))
    except Unanalysed:
        pass
"""


def ended(program: str) -> int:
    return subprocess.run([sys.executable, "-c", program], check=False, timeout=60).returncode


def test_no_letter_makes_the_grammar_end_the_process() -> None:
    # The control: what lies behind the C library's table is a matter of chance, so one process in five lives.
    assert any(ended(NAKED) == -signal.SIGSEGV for _ in range(30)), "the grammar by itself reads memory that is not its own"
    assert ended(OURS) == 0


@given(text=st.text(st.characters(exclude_categories=["Cs"]), max_size=30))
@settings(max_examples=100, deadline=None)
def test_the_grammar_is_given_ascii_and_one_sign(text: str) -> None:
    try:
        source = parse(text).source
    except Unanalysed:
        return
    assert source.decode().replace("§", "").isascii()


@given(text=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40))
@settings(max_examples=100, deadline=None)
def test_a_quoted_word_is_given_back_letter_by_letter(text: str) -> None:
    quoted = "'" + text.replace("'", "") + "'"
    script = parse(f"echo {quoted} é")
    word = script.root.children[0].children[1]
    assert script.text(word.start_byte, word.end_byte) == quoted


def test_paths_with_letters_beyond_ascii_are_judged_as_they_are_written() -> None:
    assert refused("rm -rf /größe/…")
    assert not refused("rm -rf größe/…")
    assert refused("x=/größe; rm -rf é $x")
    assert "/größe" in verdict("x=/größe; rm -rf é $x").reason


def test_a_blank_that_is_none_to_bash_stays_inside_its_word() -> None:
    # With a no-break space or a next-line sign inside, this is one relative name, not the root.
    assert not refused("rm -rf a\u0085/b")
    assert not refused("rm -rf a\u00a0/b\u2003/")
    assert refused("rm -rf \u00a0 /")


def test_bytes_that_are_no_text_are_not_analysed() -> None:
    with pytest.raises(Unanalysed, match="no UTF-8"):
        parse("echo \udcff")
