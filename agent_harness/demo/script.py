"""What a scripted endpoint is asked and what it answers: the request as read, and replies that are easy to write down."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from threading import Event, Lock

from agent_harness.events import JsonValue

Json = dict[str, JsonValue]


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """One tool result in the history, beside the call that it answers. `arguments` is the raw text."""

    call_id: str
    name: str
    arguments: str
    content: str


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """One request as it arrived.

    Attributes:
        number: counts from 1 over everything that the endpoint was asked.
        body: the decoded body.
        raw: its bytes.
        headers: names in lower case.
    """

    number: int
    body: Json
    raw: bytes
    headers: Mapping[str, str]

    @property
    def messages(self) -> list[Json]:
        """The whole history."""
        return objects(self.body.get("messages"))

    @property
    def tool_names(self) -> list[str]:
        """What may be called."""
        return [text(obj(tool.get("function")).get("name")) for tool in objects(self.body.get("tools"))]

    @property
    def turn(self) -> int:
        """How many replies the history holds already."""
        return sum(message.get("role") == "assistant" for message in self.messages)

    @property
    def answers(self) -> list[ToolAnswer]:
        """Every tool result so far, in order."""
        calls: dict[str, tuple[str, str]] = {}
        found: list[ToolAnswer] = []
        for message in self.messages:
            for call in objects(message.get("tool_calls")):
                function = obj(call.get("function"))
                calls[text(call.get("id"))] = text(function.get("name")), text(function.get("arguments"))
            if message.get("role") == "tool":
                call_id = text(message.get("tool_call_id"))
                name, arguments = calls.get(call_id, ("", ""))
                found.append(ToolAnswer(call_id, name, arguments, text(message.get("content"))))
        return found


@dataclass(frozen=True, slots=True)
class ScriptedCall:
    """A tool call to make. No id = the endpoint makes one; an empty id = none is sent. Text as arguments is sent as it is."""

    name: str
    arguments: JsonValue
    id: str | None = None


@dataclass(frozen=True, slots=True)
class Gate:
    """A place where a reply waits, instead of a delay: `reached` is set by the endpoint, `opened` by the test."""

    after_bytes: int = 0
    reached: Event = field(default_factory=Event)
    opened: Event = field(default_factory=Event)


@dataclass(frozen=True, slots=True)
class ScriptedReply:
    """One answer.

    Attributes:
        usage: None = counted by the endpoint, a mapping = sent as it is, False = no usage at all.
        finish_reason: empty = what follows from the reply.
        status: of an HTTP error, with `body` and `headers`.
        raw: exactly these bytes as the stream, after which the connection is closed.
        gate: where the answer waits; after no bytes it waits before the status line.
        dribble: send the stream one byte at a time.
    """

    text: str = ""
    calls: tuple[ScriptedCall, ...] = ()
    usage: Json | bool | None = None
    finish_reason: str = ""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: bytes = b""
    raw: bytes | None = None
    gate: Gate | None = None
    dribble: bool = False

    def __add__(self, other: ScriptedReply) -> ScriptedReply:
        """Both in one reply: words, then calls in order."""
        return replace(self, text=self.text + other.text, calls=self.calls + other.calls)


Script = Callable[[ChatRequest], ScriptedReply]


def say(words: str, *, usage: Json | bool | None = None, finish_reason: str = "", gate: Gate | None = None) -> ScriptedReply:
    """A reply in words."""
    return ScriptedReply(words, usage=usage, finish_reason=finish_reason, gate=gate)


def call(name: str, arguments: JsonValue, *, id: str | None = None, words: str = "") -> ScriptedReply:
    """A reply that calls a tool; add replies to make several calls at once."""
    return ScriptedReply(words, (ScriptedCall(name, arguments, id),))


def raw(stream: bytes, *, gate: Gate | None = None, dribble: bool = False) -> ScriptedReply:
    """Exactly these bytes, then the connection ends."""
    return ScriptedReply(raw=stream, gate=gate, dribble=dribble)


def error(
    status: int,
    message: str,
    *,
    type: str = "invalid_request_error",
    code: JsonValue = None,
    param: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> ScriptedReply:
    """An HTTP error with the error object that OpenAI sends."""
    body = {"error": {"message": message, "type": type, "code": code, "param": param}}
    return ScriptedReply(status=status, headers=headers or {}, body=json.dumps(body).encode())


def in_order(*replies: ScriptedReply) -> Script:
    """A script that gives these replies one after the other, whatever is asked, and refuses any further request."""
    left = list(replies)
    lock = Lock()

    def script(request: ChatRequest) -> ScriptedReply:
        with lock:
            if left:
                return left.pop(0)
        return error(400, f"the script has {len(replies)} replies; request {request.number} is one too many", type="script_ended")

    return script


def echo(turns: int) -> Script:
    """A script for measurements: that many small shell commands through the first tool offered, then words."""

    def script(request: ChatRequest) -> ScriptedReply:
        if request.turn >= turns or not request.tool_names:
            return say(f"Done after {request.turn} commands.")
        names = request.tool_names
        name = "run_shell" if "run_shell" in names else names[0]
        return call(name, {"command": f"echo turn {request.turn + 1}"})

    return script


def text(value: JsonValue) -> str:
    """The value if it is text, else nothing."""
    return value if isinstance(value, str) else ""


def obj(value: JsonValue) -> Json:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def objects(value: JsonValue) -> list[Json]:
    """The objects in a list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
