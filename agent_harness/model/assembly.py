"""Puts a streamed reply together from its chunks. Nothing in it is judged or repaired; that is `calls.py`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

from agent_harness.budget import Usage
from agent_harness.model.base import RawCall, Reply
from agent_harness.model.usage import read_usage


@dataclass
class _Slot:
    """One tool call that grows."""

    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list[str])


@dataclass
class Assembly:
    """Takes the chunks of one reply in order.

    Attributes:
        finish_reason: the provider's word for why it ended; empty until it said so.
        usage: as last reported.
        id: what the provider calls the reply.
        begun: anything has arrived.
    """

    finish_reason: str = ""
    usage: Usage | None = None
    id: str = ""
    begun: bool = False
    _text: list[str] = field(default_factory=list[str])
    _slots: list[_Slot] = field(default_factory=list[_Slot])
    _by_index: dict[int, _Slot] = field(default_factory=dict[int, _Slot])

    def take(self, chunk: object) -> str:
        """Add one chunk; returns the text that it adds, to show."""
        self.begun = True
        if not isinstance(chunk, dict):
            return ""
        data = cast("dict[str, object]", chunk)
        self.id = self.id or _text(data.get("id"))
        if data.get("usage") is not None:
            self.usage = read_usage(data["usage"])
        added = ""
        for choice in _objects(data.get("choices")):
            if choice.get("index") in (None, 0):
                self.finish_reason = _text(choice.get("finish_reason")) or self.finish_reason
                # Gateways that can't stream send the whole reply as one chunk, with `message` in the place of `delta`.
                added += self._delta(_object(choice.get("delta")) or _object(choice.get("message")))
        return added

    def reply(self, request_id: str) -> Reply:
        """All of it."""
        calls = tuple(RawCall(slot.id, slot.name, "".join(slot.arguments)) for slot in self._slots)
        return Reply("".join(self._text), calls, self.finish_reason, self.usage, request_id or self.id)

    def _delta(self, delta: Mapping[str, object]) -> str:
        text = _content(delta.get("content")) or _text(delta.get("refusal"))
        if text:
            self._text.append(text)
        for position, part in enumerate(_objects(delta.get("tool_calls"))):
            self._grow(part, position)
        return text

    def _grow(self, part: Mapping[str, object], position: int) -> None:
        function = _object(part.get("function"))
        call_id, name = _text(part.get("id")), _text(function.get("name"))
        slot = self._slot(part.get("index"), position, call_id, name)
        slot.id = slot.id or call_id
        slot.name = slot.name or name
        arguments = function.get("arguments")
        if arguments is not None:
            # An object in the place of its text means what it says, so it becomes that text.
            slot.arguments.append(arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False))

    def _slot(self, index: object, position: int, call_id: str, name: str) -> _Slot:
        """The call that a part belongs to: by its index; without one by its id, then by its place in the chunk."""
        if isinstance(index, int):
            slot = self._by_index.get(index)
            # Some endpoints count every call as 0; another id with a name begins another call.
            if slot is None or (call_id and slot.id and call_id != slot.id and name):
                slot = self._by_index[index] = self._new()
            return slot
        if call_id and position == 0:
            known = next((slot for slot in self._slots if slot.id == call_id), None)
            return known or self._new()
        if position or name or not self._slots:
            return self._new()
        return self._slots[-1]

    def _new(self) -> _Slot:
        slot = _Slot()
        self._slots.append(slot)
        return slot


def _content(value: object) -> str:
    """The text of a delta; some endpoints send a list of typed parts."""
    if isinstance(value, list):
        return "".join(_text(part.get("text")) for part in _objects(cast("list[object]", value)))
    return _text(value)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _object(value: object) -> dict[str, object]:
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}


def _objects(value: object) -> list[dict[str, object]]:
    return [_object(item) for item in cast("list[object]", value)] if isinstance(value, list) else []
