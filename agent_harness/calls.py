"""Reads the tool calls of a reply: strict JSON, nothing repaired, every call with an id of its own."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Sequence
from typing import cast

from agent_harness.events import JsonValue
from agent_harness.messages import ToolCall
from agent_harness.model.base import RawCall

SHOWN = 60  # characters of bad arguments quoted back
DEEPEST = 100  # levels of nesting; no tool takes more than three, and every walk over a record goes that deep
KINDS: dict[type, str] = {
    list: "an array",
    str: "a string",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    type(None): "null",
}
ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,63}")  # ids also name files of stored outputs


def read_calls(raw: Sequence[RawCall], used: Collection[str], turn: int) -> list[ToolCall]:
    """The calls in the order asked. A missing, repeated or unusable id is replaced by a new one.

    Args:
        raw: as the provider sent them.
        used: ids that the session has seen before.
        turn: number of the turn, for new ids.
    """
    taken = set(used)
    calls: list[ToolCall] = []
    for position, call in enumerate(raw, 1):
        call_id = call.id
        if call_id in taken or not ID.fullmatch(call_id):
            call_id = f"call_{turn}_{position}"
            while call_id in taken:
                call_id += "x"
        taken.add(call_id)
        arguments, problem = read_arguments(call.arguments)
        calls.append(ToolCall(call_id, call.name, arguments, problem))
    return calls


def read_arguments(text: str) -> tuple[dict[str, JsonValue] | str, str]:
    """The arguments as an object and no problem, or the raw text and what is wrong with it, for the model."""
    try:
        value: JsonValue = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant, parse_float=_finite)
    except json.JSONDecodeError as error:
        return text, _describe(text, error)
    except (ValueError, RecursionError) as error:
        return text, f"the arguments are no valid JSON object: {error}"
    if not isinstance(value, dict):
        kind = KINDS[type(value)]
        return text, f"the arguments must be one JSON object, but they are {kind}: {_clip(text)}"
    if _is_deep(value, text):
        return text, f"the arguments are nested more than {DEEPEST} levels deep; no tool takes that"
    if _has_surrogate(text):
        return (
            text,
            "the arguments hold half of a surrogate pair (\\ud800-\\udfff), which is no character; send the whole character",
        )
    return value, ""


def _describe(text: str, error: json.JSONDecodeError) -> str:
    if not text.strip():
        return "the arguments are empty; send a JSON object"
    near = text[max(error.pos - 20, 0) : error.pos + 20]
    hint = "; write a line break inside a string as \\n" if error.msg.startswith("Invalid control character") else ""
    if error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string"):
        hint = "; they end too early: if they were too long for one reply, do the work in smaller parts"
    return f"the arguments are no valid JSON: {error.msg} at line {error.lineno}, column {error.colno}, near {_clip(near)}{hint}"


def _unique(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {twice!r} is there twice, with two values; send it once")
    return found


def _no_constant(name: str) -> JsonValue:
    raise ValueError(f"{name} is no JSON value")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"the number {_clip(text)} is too large")
    return number


def _is_deep(value: JsonValue, text: str) -> bool:
    if text.count("[") + text.count("{") <= DEEPEST:
        return False
    level: list[JsonValue] = [value]
    for _ in range(DEEPEST):
        inner = [each.values() if isinstance(each, dict) else each for each in level if isinstance(each, dict | list)]
        level = [each for group in inner for each in group]
    return any(isinstance(each, dict | list) for each in level)


def _has_surrogate(text: str) -> bool:
    """Whether any string in the JSON text decodes to an unpaired surrogate; most texts hold no escape of that kind."""
    if "\\ud" not in text and "\\uD" not in text:
        return not _encodable(text)
    return not _encodable(json.dumps(cast("object", json.loads(text)), ensure_ascii=False))


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _clip(text: str) -> str:
    shown = json.dumps(text[:SHOWN])
    return shown + ("..." if len(text) > SHOWN else "")
