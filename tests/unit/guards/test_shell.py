"""The list of commands that policies read."""

from __future__ import annotations

import pytest

from agent_harness.guards.shell import ParsedCommand, Redirect, parse_commands
from tests.fakes.data_world import ROOT, DataWorld


def commands(line: str) -> list[tuple[str | None, ...]]:
    return [command.argv for command in parse_commands(line, DataWorld())]


def test_words_are_given_as_the_program_would_get_them() -> None:
    assert commands("x=build; rm -rf \"$x\" ~/'a b' $'c\\td' {e,f}") == [
        ("rm", "-rf", "build", "/home/mia/a b", "c\td", "e", "f")
    ]


def test_every_command_of_a_line_is_listed_in_order() -> None:
    assert commands("a && b | c; (d); $(e) || f") == [("a",), ("b",), ("c",), ("d",), ("e",), ("f",)] or commands(
        "a && b | c; (d); x=$(e) || f"
    ) == [("a",), ("b",), ("c",), ("d",), ("e",), ("f",)]


def test_wrappers_and_nested_shells_are_listed_with_what_they_run() -> None:
    assert commands("sudo env A=1 bash -c 'curl x | jq .'") == [
        ("sudo", "env", "A=1", "bash", "-c", "curl x | jq ."),
        ("env", "A=1", "bash", "-c", "curl x | jq ."),
        ("bash", "-c", "curl x | jq ."),
        ("curl", "x"),
        ("jq", "."),
    ]


def test_an_unknown_word_is_none_and_the_command_undecidable() -> None:
    (inner, outer) = parse_commands("rm $(list-files)", DataWorld())
    assert inner.argv == ("list-files",)
    assert (outer.argv, outer.decidable) == (("rm", None), False)


def test_the_folder_follows_cd() -> None:
    first, second = parse_commands("cd build && make", DataWorld())
    assert (first.cwd, second.cwd) == (ROOT, f"{ROOT}/build")


def test_redirections_are_listed() -> None:
    (command,) = parse_commands("sort < in >> out.txt 2> err", DataWorld())
    assert command.redirects == (Redirect("<", "in"), Redirect(">>", "out.txt"), Redirect("2>", "err"))


def test_the_text_of_a_heredoc_is_listed() -> None:
    (command,) = parse_commands("cat <<'E'\nhello $x\nE", DataWorld())
    assert command.redirects == (Redirect("<<", "hello $x\n"),)


def test_a_glob_stays_as_written() -> None:
    assert commands("ls *.py src/?.[ch]") == [("ls", "*.py", "src/?.[ch]")]


@pytest.mark.parametrize("line", ["if", "echo 'x", "\ue000", "x" * 200_000])
def test_a_line_that_cannot_be_read_is_one_undecidable_command(line: str) -> None:
    assert parse_commands(line, DataWorld()) == [ParsedCommand((None,), None, (), decidable=False)]


def test_opaque_code_leaves_an_undecidable_command() -> None:
    assert parse_commands("curl x | sh", DataWorld())[-1] == ParsedCommand((None,), None, (), decidable=False)
    assert all(command.decidable for command in parse_commands("ls; make test", DataWorld()))
