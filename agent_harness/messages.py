"""The conversation that the model reads: a fold over the trace, never kept beside it.

`Conversation.apply` takes events as they are recorded (or re-read) and appends provider messages; it never changes one that it
already gave out, except that a compaction starts anew. That is what keeps provider caches hitting.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from agent_harness.events import JsonValue

Message = dict[str, JsonValue]

INTERRUPTED = "Interrupted: this call was not run to its end. Nothing is known of its effect; look before you repeat it."
RAW_ARGUMENTS_KEPT = 2_000


@dataclass(frozen=True, slots=True)
class ToolCall:
    """The model's request for a tool.

    Attributes:
        id: unique in the session; made by the harness when the provider gave none or gave one twice.
        name: the tool's name as the model wrote it.
        arguments: the arguments as a JSON object, or the raw text when they could not be read as one.
        problem: why the arguments could not be read, for the model; empty when they could.
    """

    id: str
    name: str
    arguments: dict[str, JsonValue] | str
    problem: str = ""


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The one answer to the call of that id.

    Attributes:
        content: what the model reads, within its window.
        is_error: the call did not do what was asked.
        truncated: `content` is part of a longer output.
        exit_code: of a command, else None.
        stored: path in the session folder of the whole output, if longer than `content`.
    """

    id: str
    name: str
    content: str
    is_error: bool = False
    truncated: bool = False
    exit_code: int | None = None
    stored: str | None = None


@dataclass
class Conversation:
    """Folds trace records into chat-completions messages (without the system prompt, which never changes)."""

    messages: list[Message] = field(default_factory=list[Message])
    _open: dict[str, None] = field(default_factory=dict[str, None])
    _results: dict[str, str] = field(default_factory=dict[str, str])
    _assistant: Message | None = None
    _begun: bool = False
    _late: list[Message] = field(default_factory=list[Message])

    def apply(self, record: Mapping[str, JsonValue]) -> None:
        """Take the next record of the trace; types that are no part of the conversation are ignored."""
        match record.get("type"):
            case "user_message":
                self._say({"role": "user", "content": _text(record, "text")})
            case "turn_started":
                self.close_calls()
                self._assistant, self._begun = {"role": "assistant", "content": None}, False
            case "assistant_text" if self._assistant is not None:
                self._begin_reply()["content"] = _text(record, "text")
            case "tool_call":
                self._add_call(record)
            case "tool_result":
                self._add_result(_text(record, "id"), _text(record, "content"))
            case "compaction":
                self.messages = [{"role": "user", "content": _text(record, "summary")}]
                self._open, self._results, self._assistant = {}, {}, None
            case _:
                pass

    def close_calls(self) -> list[str]:
        """Answer every call that has no result yet, in the order they were asked; returns the ids that were open.

        Called before every request: providers refuse a call without its result for ever after.
        """
        missing = [call_id for call_id in self._open if call_id not in self._results]
        for call_id in missing:
            self._results[call_id] = INTERRUPTED
        self._flush_results()
        self.messages.extend(self._late)
        self._late.clear()
        return missing

    def _say(self, message: Message) -> None:
        # A message that arrives while calls are open must not come between a call and its result.
        (self._late if self._open else self.messages).append(message)

    def _begin_reply(self) -> Message:
        reply = self._assistant
        assert reply is not None
        if not self._begun:
            self.messages.append(reply)
            self._begun = True
        return reply

    def _add_call(self, record: Mapping[str, JsonValue]) -> None:
        if self._assistant is None:
            return
        arguments = record.get("arguments")
        if isinstance(arguments, str):
            # Some providers refuse a history whose arguments are no JSON object, so the raw text travels inside one.
            arguments = {"unreadable_arguments": arguments[:RAW_ARGUMENTS_KEPT]}
        call: JsonValue = {
            "id": record.get("id"),
            "type": "function",
            "function": {"name": sendable_name(_text(record, "name")), "arguments": json.dumps(arguments, ensure_ascii=False)},
        }
        reply = self._begin_reply()
        # What was said between the words and the calls of a reply comes after the results.
        while not self._open and self.messages[-1] is not reply:
            self._late.insert(0, self.messages.pop())
        calls = reply.setdefault("tool_calls", [])
        assert isinstance(calls, list)
        calls.append(call)
        self._open[_text(record, "id")] = None

    def _add_result(self, call_id: str, content: str) -> None:
        # A result whose call is gone would be refused by every provider; the trace keeps it, the conversation does not.
        if call_id in self._open:
            self._results[call_id] = content
            self._flush_results()

    def _flush_results(self) -> None:
        """Append results in the order of their calls, as far as they are known."""
        while self._open:
            call_id = next(iter(self._open))
            if call_id not in self._results:
                return
            del self._open[call_id]
            self.messages.append({"role": "tool", "tool_call_id": call_id, "content": self._results.pop(call_id)})
        self._assistant = None
        self.messages.extend(self._late)
        self._late.clear()


def sendable_name(name: str) -> str:
    """A tool's name as it may stand in a history: providers refuse other characters for ever, whoever made the name up."""
    return re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:64] or "unnamed"


def _text(record: Mapping[str, JsonValue], key: str) -> str:
    value = record.get(key)
    return value if isinstance(value, str) else ""
