"""Rewriting a command in ways that do not change what it does must not change its verdict; nonsense must not raise."""

from __future__ import annotations

import contextlib
import shlex

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent_harness.guards.braces import expand_braces
from agent_harness.guards.lexer import Scanner
from agent_harness.guards.machine import Unanalysed
from agent_harness.guards.parameters import glob_regex
from agent_harness.guards.shell import parse_commands
from agent_harness.verdict import Decision
from tests.fakes.data_world import BRANCH, ROOT, DataWorld
from tests.fakes.judging import git_verdict, refused, verdict

QUICK = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
COMMANDS = {
    "rm -rf /srv/data": True,
    "rm -rf build": False,
    f"rm -rf {ROOT}": True,
    f"rm -f {ROOT}/src/app.o": False,
    "rm -rf ../other": True,
    "rm -rf .git": True,
    "find /srv -delete": True,
    "find src -name x.o -delete": False,
    "git push origin main": True,
    f"git push origin {BRANCH}": False,
    "git push origin HEAD:refs/heads/main": True,
    "git push --all": True,
    "git push": True,
}
command = st.sampled_from(sorted(COMMANDS))


@st.composite
def quoted(draw: st.DrawFn, word: str) -> str:
    """The word with its characters quoted in any of the ways that mean the same."""
    out: list[str] = []
    rest = word
    while rest:
        size = draw(st.integers(1, len(rest)))
        part, rest = rest[:size], rest[size:]
        style = draw(st.sampled_from(["plain", "single", "double", "escape", "ansi", "empty", "continued"]))
        match style:
            case "single":
                out.append(f"'{part}'")
            case "double":
                out.append(f'"{part}"')
            case "escape":
                out.append("".join("\\" + char for char in part))
            case "ansi":
                out.append("$'" + "".join(f"\\x{ord(char):02x}" for char in part) + "'")
            case "empty":
                out.append(part + "''")
            case "continued":
                out.append(part + "\\\n")
            case _:
                out.append(part)
    return "".join(out)


@QUICK
@given(data=st.data(), line=command)
def test_quoting_keeps_the_verdict(data: st.DataObject, line: str) -> None:
    rewritten = " ".join(data.draw(quoted(word)) for word in line.split())
    assert refused(rewritten) is COMMANDS[line], rewritten


WRAPPERS = [
    "env {}",
    "env A=1 {}",
    "sudo {}",
    "sudo -u root {}",
    "nice -n 3 {}",
    "timeout 9 {}",
    "command {}",
    "nohup {}",
    "( {} )",
    "{{ {}; }}",
    "if true; then {}; fi",
    "ls; {}",
    "ls && {} || true",
    "time {}",
    "A=1 {}",
    "{} 2>&1 | cat",
    "{} > /dev/null",
]


@QUICK
@given(line=command, wrappers=st.lists(st.sampled_from(WRAPPERS), max_size=2), shells=st.integers(0, 2))
def test_wrapping_keeps_the_verdict(line: str, wrappers: list[str], shells: int) -> None:
    rewritten = line
    for _ in range(shells):
        rewritten = f"sh -c {shlex.quote(rewritten)}"
    for number, wrapper in enumerate(wrappers):
        simple = number == 0 or wrapper in WRAPPERS[8:13]
        rewritten = wrapper.format(rewritten if simple else f"sh -c {shlex.quote(rewritten)}")
    assert refused(rewritten) is COMMANDS[line], rewritten


@QUICK
@given(line=command, data=st.data())
def test_variables_keep_the_verdict(line: str, data: st.DataObject) -> None:
    words = line.split()
    which = data.draw(st.sets(st.integers(0, len(words) - 1)))
    before = "; ".join(f"v{number}={words[number]}" for number in sorted(which))
    after = " ".join(f'"$v{number}"' if number in which else word for number, word in enumerate(words))
    rewritten = f"{before}; {after}" if before else after
    assert refused(rewritten) is COMMANDS[line], rewritten


@QUICK
@given(line=command)
def test_a_function_an_alias_of_git_and_eval_keep_the_verdict(line: str) -> None:
    assert refused(f'f() {{ "$@"; }}; f {line}') is COMMANDS[line]
    assert refused(f"eval {shlex.quote(line)}") is COMMANDS[line]
    assert refused(f'set -- {line}; "$@"') is COMMANDS[line]
    assert refused(f'a=({line}); "${{a[@]}}"') is COMMANDS[line]


PIECES = [*"abrm -rf/~.*?[]{}()<>|&;$`'\"\\!#=:\n\t0", "rm ", "git push ", "<<E\n", "$(", "${", "case ", "if ", "do "]
shell_text = st.lists(st.sampled_from(PIECES), max_size=50).map("".join)


@settings(max_examples=150, deadline=None)
@given(line=shell_text | st.text(max_size=40) | st.binary(max_size=60).map(lambda data: data.decode("utf-8", "surrogateescape")))
def test_no_text_makes_a_guard_raise(line: str) -> None:
    found = verdict(line)
    assert found.decision in (Decision.ALLOW, Decision.DENY)
    assert "Error" not in found.reason, found
    parse_commands(line, DataWorld())


@settings(max_examples=80, deadline=None)
@given(
    argv=st.lists(
        st.text(max_size=12) | st.sampled_from(["push", "-c", "--all", "-C", "origin", "main", ":", "+", "*"]),
        min_size=1,
        max_size=6,
    )
)
def test_no_arguments_make_the_git_tool_raise(argv: list[str]) -> None:
    found = git_verdict(*argv)
    assert "Error" not in found.reason, found


@settings(max_examples=80, deadline=None)
@given(text=shell_text)
def test_the_scanner_ends_or_refuses(text: str) -> None:
    with contextlib.suppress(Unanalysed):
        assert isinstance(Scanner(text, {}).cut(), str)
    with contextlib.suppress(Unanalysed):
        assert expand_braces(text)


@settings(max_examples=80, deadline=None)
@given(pattern=st.text("ab*?", max_size=8), text=st.text("ab", max_size=8))
def test_a_pattern_matches_what_a_shell_would_match(pattern: str, text: str) -> None:
    import fnmatch
    import re

    assert (re.fullmatch(glob_regex(pattern), text) is not None) is fnmatch.fnmatchcase(text, pattern)


@pytest.mark.parametrize(
    ("word", "words"),
    [
        ("{a,b}c", ["ac", "bc"]),
        ("{a,{b,c}}", ["a", "b", "c"]),
        ("{1..3}", ["1", "2", "3"]),
        ("{01..03}", ["01", "02", "03"]),
        ("{c..a}", ["c", "b", "a"]),
        ("{a}", ["{a}"]),
        ("'{a,b}'", ["'{a,b}'"]),
        ("${a,b}", ["${a,b}"]),
        ('x{a,"b,c"}', ["xa", 'x"b,c"']),
        ("{a,b}{c,d}", ["ac", "ad", "bc", "bd"]),
    ],
)
def test_braces_expand_as_a_shell_expands_them(word: str, words: list[str]) -> None:
    assert expand_braces(word) == words
