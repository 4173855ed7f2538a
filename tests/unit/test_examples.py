"""Every command's help page has examples, and the real parser takes each of them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

import pytest

from agent_harness import examples
from agent_harness.cli import command_line
from agent_harness.errors import ConfigError


def lines(text: str) -> Iterator[list[str]]:
    """The arguments of each example, without variables before the command and what a shell does after it."""
    for line in text.splitlines():
        found = re.search(r"agent-harness (.*)", line)
        if line.startswith("  ") and found:
            command = re.split(r"\s{3,}| \| | > |\)", found[1])[0]
            yield shlex.split(command)


def test_every_command_has_examples_and_every_example_its_command() -> None:
    assert set(command_line().commands()) == set(examples.OF)
    for name, text in examples.OF.items():
        found = list(lines(text))
        assert found
        assert {words[0] for words in found} == {name}


@pytest.mark.parametrize("text", [examples.ALL, *examples.OF.values()])
def test_an_example_is_what_the_parser_takes(text: str) -> None:
    for words in lines(text):
        options = command_line().parse_args(words)
        assert options.command == words[0]


def test_an_example_that_is_wrong_would_be_caught() -> None:
    with pytest.raises(ConfigError):
        command_line().parse_args(next(lines("  agent-harness show last --colour   all of it\n")))


def test_every_help_page_says_what_the_command_does_and_shows_its_examples() -> None:
    for name, parser in command_line().commands().items():
        page = parser.format_help()
        assert parser.description
        assert examples.OF[name].strip() in page
        assert "==SUPPRESS==" not in page


def test_every_option_that_a_page_offers_says_what_it_is_for() -> None:
    pages = command_line().commands().items()
    unsaid = [f"{name} {action.dest}" for name, parser in pages for action in parser.actions() if not action.help]
    assert unsaid == []
