"""The trace for people: plain lines that read well in a terminal, a log file and a pipe."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

from agent_harness.events import JsonValue
from agent_harness.sinks.fields import after, arguments, count, dollars, fields, gist, items, number, text_of
from agent_harness.sinks.plain_text import clip, lines, one_line
from agent_harness.trace import Delta, Record

STYLES = {"dim": "2", "bold": "1", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
MARKS = {"done": "[x]", "in_progress": "[>]", "pending": "[ ]"}
QUIET_HOOK_DECISIONS = ("", "allow", "none", "ok")


@dataclass
class Console:
    """Turns each record into the text to show for it. Holds what one line needs to know of earlier ones.

    Attributes:
        width: cells of a line; longer ones are clipped, the model's own words are not.
        colours: whether to use ANSI colours.
    """

    width: int = 100
    colours: bool = False
    _limits: dict[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    _branch: str = ""
    _streamed: str = ""
    _last_text: str = ""
    _plan: str = ""
    _spent: str = ""
    _turn: int = 0
    _announced: int = 0
    _open: dict[str, str] = field(default_factory=dict[str, str])
    _denied: set[str] = field(default_factory=set[str])

    def __post_init__(self) -> None:
        self._shown: dict[str, Callable[[Record], str]] = {
            "session_started": self._session_started,
            "surface": self._surface,
            "user_message": self._user_message,
            "reservation": self._reservation,
            "turn_started": self._turn_started,
            "usage": self._usage,
            "assistant_text": self._assistant_text,
            "tool_call": self._tool_call,
            "verdict": self._verdict,
            "tool_result": self._tool_result,
            "plan": self._changed_plan,
            "hook": self._hook,
            "retry": self._retry,
            "compaction": self._compaction,
            "limits_changed": self._limits_changed,
            "question": self._question,
            "publish_step": self._publish_step,
            "verification": self._verification,
            "notice": self._notice,
            "session_ended": self._session_ended,
        }

    def render(self, item: Record | Delta) -> bytes:
        """The text for one item, encoded; empty when there is nothing to show."""
        text = self._delta(item.text) if isinstance(item, Delta) else self._record(item)
        return text.encode("utf-8", "backslashreplace")

    def _delta(self, text: str) -> str:
        self._streamed += text
        return lines(text)

    def _record(self, record: Record) -> str:
        kind = str(record.get("type"))
        shower = self._shown.get(kind)
        if shower is None:
            return ""
        # Streamed text rarely ends its own line; what follows begins on a new one.
        begin = "\n" if self._streamed and kind != "assistant_text" and not self._streamed.endswith("\n") else ""
        shown = shower(record)
        if shown and begin:
            self._streamed += "\n"
        return begin + shown if shown else ""

    def _line(self, text: str, style: str = "", indent: int = 0) -> str:
        shown = clip(one_line(text), self.width - indent)
        return " " * indent + self._styled(shown, style) + "\n"

    def _whole(self, text: str, style: str = "", indent: int = 0) -> str:
        """A line that is never clipped: what a person has to read to its end, or to copy."""
        return " " * indent + self._styled(one_line(text), style) + "\n"

    def _styled(self, text: str, style: str) -> str:
        return f"\x1b[{STYLES[style]}m{text}\x1b[0m" if self.colours and style else text

    def _labelled(self, label: str, text: str) -> str:
        return self._styled(f"{label:<13}", "dim") + one_line(text) + "\n"

    def opening(self, session: str, trace_path: str) -> bytes:
        """The first lines, before anything has happened: what to ask about when something goes wrong."""
        return (self._labelled("session", session) + self._labelled("trace", trace_path)).encode("utf-8", "backslashreplace")

    def _session_started(self, record: Record) -> str:
        task = fields(record, "task")
        self._limits = fields(record, "limits")
        self._branch = text_of(record, "branch")
        commit = text_of(task, "base_commit")[:12]
        base = f"{text_of(task, 'base')} at {commit}" if commit else f"{text_of(task, 'base')}, no commits yet"
        return (
            self._labelled("repository", f"{text_of(task, 'repo')}, {base}")
            + self._labelled("task", text_of(task, "text"))
            + self._labelled("model", f"{text_of(record, 'model')}, on the {text_of(record, 'surface')} surface")
            + self._labelled("ceilings", self._ceilings())
        )

    def _ceilings(self) -> str:
        cost = self._limits.get("max_cost_usd")
        seconds = self._limits.get("max_seconds")
        parts = [
            f"{count(self._limits.get('max_turns'))} turns",
            f"{count(self._limits.get('max_tokens'))} tokens",
            "no cost ceiling" if cost is None else dollars(cost),
            *([] if seconds is None else [f"{seconds} s"]),
        ]
        return ", ".join(parts)

    def _surface(self, record: Record) -> str:
        return self._line(f"sandbox {text_of(record, 'state')}{after(': ', record, 'detail')}", "dim")

    def _user_message(self, record: Record) -> str:
        origin = text_of(record, "origin")
        opening = not self._last_text if origin in ("person", "issue") else origin == "harness" and not self._turn
        return "" if opening else self._line(f"to the model ({origin}): {text_of(record, 'text')}", "cyan")

    def _reservation(self, record: Record) -> str:
        """A request is about to be sent, so what streams next is the next turn's; a retry of it has its line already."""
        if text_of(record, "purpose") != "turn" or self._announced > self._turn:
            return ""
        self._announced = self._turn + 1
        of = f" of {count(self._limits['max_turns'])}" if "max_turns" in self._limits else ""
        return self._line(f"-- turn {count(self._announced)}{of}{self._spent}", "dim")

    def _turn_started(self, record: Record) -> str:
        self._turn = int(number(record.get("turn")))
        return ""

    def _usage(self, record: Record) -> str:
        cost, ceiling = record.get("total_cost_usd"), self._limits.get("max_cost_usd")
        spent = "cost unknown" if cost is None else dollars(cost)
        of = "" if ceiling is None else f" of {dollars(ceiling)}"
        self._spent = f" -- {count(record.get('total_tokens'))} of {count(self._limits.get('max_tokens'))} tokens, {spent}{of}"
        return ""

    def _assistant_text(self, record: Record) -> str:
        text = text_of(record, "text")
        streamed, self._streamed, self._last_text = self._streamed, "", text
        if streamed.strip() == text.strip():
            return "" if streamed.endswith("\n") else "\n"
        return ("\n" if streamed and not streamed.endswith("\n") else "") + lines(text).rstrip("\n") + "\n"

    def _tool_call(self, record: Record) -> str:
        call = f"{text_of(record, 'name')} {arguments(record.get('arguments'))}".rstrip()
        self._open[text_of(record, "id")] = text_of(record, "name")
        return self._line(f"> {call}", "bold", 2)

    def _verdict(self, record: Record) -> str:
        decision = text_of(record, "decision")
        if decision == "allow":
            return ""
        if decision == "deny":
            self._denied.add(text_of(record, "call_id"))
        said = f"{'refused' if decision == 'deny' else 'rewritten'} by {text_of(record, 'by')}{after(': ', record, 'reason')}"
        instead = text_of(record, "instead")
        return self._whole(said, "yellow", 4) + (self._whole(f"instead: {instead}", "yellow", 4) if instead else "")

    def _tool_result(self, record: Record) -> str:
        call, ok = text_of(record, "id"), record.get("ok") is True
        name = self._open.pop(call, text_of(record, "name"))
        if call in self._denied or (ok and name == "TodoWrite"):  # the refusal, the plan: shown already
            return ""
        code = record.get("exit_code")
        parts = [
            *([name] if self._open else []),
            ("ok" if ok else "failed") if code is None else f"exit {code}",
            f"{number(record.get('duration_ms')) / 1000:.2f} s",
            gist(name, text_of(record, "content")),
        ]
        return self._line(", ".join(part for part in parts if part), "green" if ok and not code else "red", 4)

    def _changed_plan(self, record: Record) -> str:
        steps = [cast("dict[str, JsonValue]", step) for step in items(record, "todos") if isinstance(step, dict)]
        shown = "".join(
            self._line(
                f"{MARKS.get(text_of(step, 'status'), '[ ]')} {text_of(step, 'content')}",
                "dim" * (step.get("status") == "done"),
                2,
            )
            for step in steps
        )
        if shown == self._plan:
            return ""
        self._plan = shown
        return self._line("plan", "bold") + shown

    def _hook(self, record: Record) -> str:
        decision = text_of(record, "decision")
        if decision in QUIET_HOOK_DECISIONS:
            return ""
        return self._line(
            f"hook {text_of(record, 'hook')} on {text_of(record, 'event')}: {decision}{after(', ', record, 'reason')}",
            "yellow",
            2,
        )

    def _retry(self, record: Record) -> str:
        self._streamed = ""
        status, wait = record.get("status"), f"{number(record.get('wait_s')):.1f} s"
        http = f" (HTTP {status})" if status else ""
        return self._line(
            f"the model's endpoint failed{after(': ', record, 'error_type')}{http}; asking again in {wait} "
            f"(attempt {record.get('attempt')})",
            "yellow",
        )

    def _compaction(self, record: Record) -> str:
        return self._line(
            f"history compacted: {count(record.get('tokens_before'))} to {count(record.get('tokens_after'))} tokens", "dim"
        )

    def _limits_changed(self, record: Record) -> str:
        self._limits = {**self._limits, **fields(record, "limits")}
        return self._labelled("ceilings", self._ceilings())

    def _question(self, record: Record) -> str:
        return self._whole(f"question {text_of(record, 'id')}: {text_of(record, 'text')}", "yellow")

    def _publish_step(self, record: Record) -> str:
        return self._line(f"publish: {text_of(record, 'step')}{after(', ', record, 'detail')}", "dim")

    def _verification(self, record: Record) -> str:
        return self._line(f"verified: {text_of(record, 'command')} exits {record.get('exit_code')}", "bold")

    def _notice(self, record: Record) -> str:
        return self._whole(f"! {text_of(record, 'kind')}{after(': ', record, 'detail')}", "yellow")

    def _session_ended(self, record: Record) -> str:
        outcome, reason = text_of(record, "outcome"), text_of(record, "reason")
        cost = record.get("cost_usd")
        spent = "cost unknown" if cost is None else dollars(cost)
        head = outcome if reason in ("", outcome) else f"{outcome} ({reason})"
        told = f"{head}: {count(record.get('turns'))} turns, {count(record.get('tokens'))} tokens, {spent}"
        summary = text_of(record, "summary")
        pull = fields(record, "pull_request")
        return (
            "\n"
            + self._whole(told, "green" if record.get("exit_code") == 0 else "red")
            + (lines(summary).rstrip("\n") + "\n" if summary.strip() and summary.strip() != self._last_text.strip() else "")
            + (self._labelled("branch", text_of(pull, "branch") or self._branch) if pull else "")
            + (self._labelled("pull request", text_of(pull, "url")) if pull else "")
            + self._labelled("session", text_of(record, "session"))
            + self._labelled("trace", text_of(record, "trace_path"))
        )
