"""What a model is to the loop: one request in, one reply out, nothing kept in between."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from agent_harness.budget import Usage
from agent_harness.messages import Message

ToolSchema = dict[str, object]
OnDelta = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class RawCall:
    """A tool call as it arrived, nothing judged or repaired. `id` may be empty; `arguments` is the raw text."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Request:
    """Everything that is sent. `messages` begins with the system prompt; `tools` is empty on the last turn."""

    messages: Sequence[Message]
    tools: Sequence[ToolSchema]
    max_completion_tokens: int


@dataclass(frozen=True, slots=True)
class Reply:
    """One whole reply.

    Attributes:
        finish_reason: the provider's word: `stop`, `tool_calls`, `length`, ...; empty when it gave none.
        usage: None when the provider gave none (or all zeros).
        request_id: what the provider calls this request.
    """

    text: str
    calls: tuple[RawCall, ...]
    finish_reason: str
    usage: Usage | None
    request_id: str = ""


class Model(Protocol):
    """An endpoint and a model name."""

    name: str
    silence: str
    """Who kept silent and for how long, when the last request was cancelled before its answer was complete; else empty."""

    async def reply(self, request: Request, on_delta: OnDelta) -> Reply:
        """Ask once; `on_delta` gets text as it streams. A stream that breaks is an error, never half a reply.

        Raises:
            ModelError: see its attributes; nothing is retried here.
        """
        ...

    async def close(self) -> None:
        """Give connections back."""
        ...
