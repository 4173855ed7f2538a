"""The closed union of things that can happen in a session, one frozen class each.

An event holds plain data only: no future, socket or widget rides in one. Its fields are the payload of one trace line; `Trace`
adds `seq`, `time`, `session`, `type` and `prev`. Dollar amounts are exact decimals here and JSON numbers in the trace.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from decimal import Decimal
from typing import ClassVar, Literal, TypeAlias, cast

JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"

Origin = Literal["person", "issue", "hook", "harness"]
Outcome = Literal["succeeded", "no_changes", "failed", "over_budget", "needs_human", "retryable", "cancelled"]

EXIT_CODES: dict[Outcome, int] = {
    "succeeded": 0,
    "no_changes": 0,
    "failed": 1,
    "over_budget": 3,
    "needs_human": 4,
    "retryable": 5,
    "cancelled": 130,
}


@dataclass(frozen=True, slots=True)
class Event:
    """Base of every event; `type` is its name in the trace."""

    type: ClassVar[str] = ""

    def payload(self) -> dict[str, JsonValue]:
        """The event's own fields as JSON values; decimals become numbers."""
        return {f.name: _plain(getattr(self, f.name)) for f in fields(self)}


def _plain(value: object) -> JsonValue:
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in cast("dict[object, object]", value).items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in cast("list[object]", value)]
    return cast("JsonValue", value)


@dataclass(frozen=True, slots=True)
class SessionStarted(Event):
    """The first event: everything that was asked for, and with what. `task` has repo, base, base_commit, text, issue."""

    type: ClassVar[str] = "session_started"
    task: dict[str, JsonValue]
    surface: str
    model: str
    limits: dict[str, JsonValue]
    branch: str
    versions: dict[str, JsonValue]


@dataclass(frozen=True, slots=True)
class SurfaceChanged(Event):
    """The place where commands run changed its state."""

    type: ClassVar[str] = "surface"
    state: Literal["preparing", "ready", "lost", "restored", "closed"]
    detail: str = ""


@dataclass(frozen=True, slots=True)
class UserMessage(Event):
    """Text that enters the conversation in the user's role, and who it came from."""

    type: ClassVar[str] = "user_message"
    text: str
    origin: Origin


@dataclass(frozen=True, slots=True)
class TurnStarted(Event):
    """A reply of the model is complete and about to be acted on; turns count from 1."""

    type: ClassVar[str] = "turn_started"
    turn: int


@dataclass(frozen=True, slots=True)
class AssistantText(Event):
    """What the model said in words in this turn."""

    type: ClassVar[str] = "assistant_text"
    turn: int
    text: str


@dataclass(frozen=True, slots=True)
class ToolCalled(Event):
    """The model asked for a tool. `arguments` is the raw string when it could not be read as a JSON object."""

    type: ClassVar[str] = "tool_call"
    turn: int
    id: str
    name: str
    arguments: dict[str, JsonValue] | str


@dataclass(frozen=True, slots=True)
class CallJudged(Event):
    """What a guard or a hook decided about a call."""

    type: ClassVar[str] = "verdict"
    call_id: str
    decision: Literal["allow", "deny", "rewrite"]
    by: str
    reason: str = ""
    instead: str = ""


@dataclass(frozen=True, slots=True)
class ToolReturned(Event):
    """The one answer to a call: exactly what the model reads, and where the whole output is kept if that was longer."""

    type: ClassVar[str] = "tool_result"
    id: str
    name: str
    ok: bool
    content: str
    truncated: bool = False
    duration_ms: int = 0
    exit_code: int | None = None
    stored: str | None = None


@dataclass(frozen=True, slots=True)
class Reserved(Event):
    """The worst case of a request was set aside before sending it."""

    type: ClassVar[str] = "reservation"
    purpose: str
    tokens: int
    cost_usd: Decimal | None


@dataclass(frozen=True, slots=True)
class UsageSettled(Event):
    """What a request really used, and the session's totals after it. A cost of None is unknown, not zero."""

    type: ClassVar[str] = "usage"
    purpose: str
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    cache_write_tokens: int
    reasoning_tokens: int
    cost_usd: Decimal | None
    estimated: bool
    total_tokens: int
    total_cost_usd: Decimal | None


@dataclass(frozen=True, slots=True)
class PlanChanged(Event):
    """The model replaced its plan."""

    type: ClassVar[str] = "plan"
    todos: list[dict[str, JsonValue]]
    notes: list[str]


@dataclass(frozen=True, slots=True)
class HookRan(Event):
    """One hook answered one lifecycle event."""

    type: ClassVar[str] = "hook"
    event: str
    hook: str
    exit_code: int | None
    duration_ms: int
    decision: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Retried(Event):
    """A request to the model failed and will be sent again after `wait_s` seconds."""

    type: ClassVar[str] = "retry"
    attempt: int
    status: int | None
    error_type: str
    request_id: str
    wait_s: float


@dataclass(frozen=True, slots=True)
class Compacted(Event):
    """The history was replaced by a summary."""

    type: ClassVar[str] = "compaction"
    tokens_before: int
    tokens_after: int
    summary: str


@dataclass(frozen=True, slots=True)
class LimitsChanged(Event):
    """The ceilings were changed while the session ran or when it was resumed."""

    type: ClassVar[str] = "limits_changed"
    limits: dict[str, JsonValue]


@dataclass(frozen=True, slots=True)
class Question(Event):
    """The model, a guard or a hook asks the person something."""

    type: ClassVar[str] = "question"
    id: str
    text: str


@dataclass(frozen=True, slots=True)
class Answer(Event):
    """The person's answer to the question of that id."""

    type: ClassVar[str] = "answer"
    id: str
    text: str


@dataclass(frozen=True, slots=True)
class Checkpoint(Event):
    """The work so far was saved."""

    type: ClassVar[str] = "checkpoint"
    ref: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Intent(Event):
    """An effect outside the session is about to be attempted; on disk before it is."""

    type: ClassVar[str] = "intent"
    effect: str
    key: str


@dataclass(frozen=True, slots=True)
class PublishStep(Event):
    """One step of publishing is done."""

    type: ClassVar[str] = "publish_step"
    step: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Verification(Event):
    """The harness itself ran a check on a commit."""

    type: ClassVar[str] = "verification"
    command: str
    commit: str
    exit_code: int | None
    duration_ms: int
    counts: dict[str, JsonValue]
    digest: str


@dataclass(frozen=True, slots=True)
class Notice(Event):
    """Something worth knowing: a guardrail, a redaction, a repair, a warning."""

    type: ClassVar[str] = "notice"
    kind: str
    detail: str


@dataclass(frozen=True, slots=True)
class SessionEnded(Event):
    """The last event: how it ended, what it cost, and what came of it."""

    type: ClassVar[str] = "session_ended"
    outcome: Outcome
    reason: str
    exit_code: int
    turns: int
    tokens: int
    cost_usd: Decimal | None
    pull_request: dict[str, JsonValue] | None
    summary: str
    trace_path: str


EVENT_TYPES: dict[str, type[Event]] = {cls.type: cls for cls in Event.__subclasses__()}
