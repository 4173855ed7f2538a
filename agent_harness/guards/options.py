"""Reads argument lists the way option parsers do: which words are operands, which are values of options."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache


def pair(text: str, separator: str) -> tuple[str, str]:
    """What stands before and behind the first separator."""
    head, _, tail = text.partition(separator)
    return head, tail


@cache
def name_set(spec: str) -> frozenset[str]:
    """The names in a list written as one text."""
    return frozenset(spec.split())


def operands(args: Sequence[str], with_value: str) -> list[str]:
    """The words that are neither options nor values of options; options may stand anywhere before `--`.

    Args:
        args: words after the program's name.
        with_value: options that take their value from the next word, separated by blanks (`-n --size`).
    """
    return list(_split(args, name_set(with_value))[0])


def values_of(args: Sequence[str], names: str, with_value: str = "") -> list[str]:
    """The values given to any of the named options, in order: `-C x`, `-Cx`, `--dir x`, `--dir=x`."""
    wanted = name_set(names)
    return [value for name, value in _split(args, wanted | name_set(with_value))[1] if name in wanted]


def leading(args: Sequence[str], with_value: str) -> tuple[list[tuple[str, str]], list[str]]:
    """The options at the front, as (name, value), and everything from the first operand on: for programs that run another."""
    taking = name_set(with_value)
    found: list[tuple[str, str]] = []
    at = 0
    while at < len(args):
        word = args[at]
        at += 1
        if word == "--":
            break
        if len(word) < 2 or not word.startswith("-"):
            at -= 1
            break
        name, value, more = _option(word, taking, args[at] if at < len(args) else "")
        found += [(each, "") for each in name[:-1]] + [(name[-1], value)]
        at += more
    return found, list(args[at:])


def _split(args: Sequence[str], taking: frozenset[str]) -> tuple[list[str], list[tuple[str, str]]]:
    rest: list[str] = []
    found: list[tuple[str, str]] = []
    at = 0
    while at < len(args):
        word = args[at]
        at += 1
        if word == "--":
            return rest + list(args[at:]), found
        if len(word) < 2 or not word.startswith("-"):
            rest.append(word)
            continue
        names, value, more = _option(word, taking, args[at] if at < len(args) else "")
        found += [(each, "") for each in names[:-1]] + [(names[-1], value)]
        at += more
    return rest, found


def whole_option(name: str, taking: frozenset[str]) -> str:
    """A long option written out: GNU programs take any beginning that fits only one."""
    if name in taking or len(name) < 4:
        return name
    fitting = [each for each in taking if each.startswith(name)]
    return fitting[0] if len(fitting) == 1 else name


def _option(word: str, taking: frozenset[str], following: str) -> tuple[list[str], str, int]:
    """The option names in one word, the value of the last one, and how many further words that took."""
    if word.startswith("--"):
        name, equals, value = word.partition("=")
        name = whole_option(name, taking)
        if equals:
            return [name], value, 0
        return [name], following if name in taking else "", int(name in taking)
    names: list[str] = []
    for number, letter in enumerate(word[1:], 1):
        name = "-" + letter
        names.append(name)
        if name in taking:
            attached = word[number + 1 :]
            return names, attached or following, int(not attached)
    # Some programs have long options with one dash.
    if word in taking:
        return [word], following, 1
    return names, "", 0
