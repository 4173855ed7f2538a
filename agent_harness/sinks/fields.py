"""Reads the fields of a trace record for showing: a record of another version may lack one or have another type."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import cast

from agent_harness.events import JsonValue
from agent_harness.sinks.plain_text import clip, one_line

# The arguments that say what a call is about, in the order in which they are shown; others are counted on the tool's result.
_TELLING = ("command", "action", "job", "args", "path", "query", "glob", "old_text")
_ARGUMENT_CELLS = 200
_GIST_CELLS = 160
_LAST_LINE_TELLS = ("run_shell", "read_file")  # a summary, how much of the file there is; elsewhere the first line does
_EXIT_CODE = re.compile(r"\[exit code \d+\]")


def text_of(record: Mapping[str, JsonValue], name: str) -> str:
    """The field as text; empty when it is missing or null."""
    value = record.get(name)
    return "" if value is None else str(value)


def fields(record: Mapping[str, JsonValue], name: str) -> dict[str, JsonValue]:
    """The field as an object; empty when it is none."""
    value = record.get(name)
    return value if isinstance(value, dict) else {}


def items(record: Mapping[str, JsonValue], name: str) -> list[JsonValue]:
    """The field as a list; empty when it is none."""
    value = record.get(name)
    return value if isinstance(value, list) else []


def number(value: JsonValue) -> float:
    """The value as a number; 0 when it is none."""
    return float(value) if isinstance(value, int | float) else 0.0


def count(value: JsonValue) -> str:
    """A whole number with thousands set apart, or "?"."""
    return f"{value:,}" if isinstance(value, int) else "?"


def dollars(value: JsonValue) -> str:
    """US dollars with cents, and as many decimals more as a small amount needs to be told from nothing."""
    amount = Decimal(str(number(value)))
    return f"${amount:.2f}" if amount == 0 or amount >= 1 or amount == round(amount, 2) else f"${amount:.4f}"


def after(separator: str, record: Mapping[str, JsonValue], name: str) -> str:
    """The separator and the field's text; empty when the field is."""
    value = text_of(record, name)
    return separator + value if value else ""


def arguments(value: JsonValue) -> str:
    """The arguments of a call as one line: bare values of those that tell what it is about."""
    if not isinstance(value, dict):
        return clip(one_line(str(value)), _ARGUMENT_CELLS)
    told = [_argument(value[name]) for name in _TELLING if value.get(name) not in (None, "", [])]
    return clip(" ".join(told), _ARGUMENT_CELLS)


def _argument(value: JsonValue) -> str:
    if isinstance(value, list):
        return " ".join(one_line(str(item)) for item in cast("list[object]", value))
    return one_line(value if isinstance(value, str) else json.dumps(value))


def gist(name: str, content: str) -> str:
    """The line of a tool's result that says most, and how many there were. The exit code is shown elsewhere."""
    said = [line for line in content.splitlines() if line.strip() and not _EXIT_CODE.fullmatch(line)]
    if not said:
        return ""
    telling = clip(one_line(said[-1 if name in _LAST_LINE_TELLS else 0]), _GIST_CELLS)
    return telling if len(said) == 1 else f"{len(said)} lines: {telling}"
