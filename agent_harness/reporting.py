"""What a pull request says of a session: folds over its trace."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path

from agent_harness.budget import Budget
from agent_harness.clip import clip
from agent_harness.events import JsonValue
from agent_harness.plan import Plan, Step
from agent_harness.publishing.base import ChangedFile, Report, TraceLine
from agent_harness.task import Task
from agent_harness.trace import Record, read

SUBJECT_CHARS = 72  # what git's own tools show of a subject without cutting it
LINE_CHARS = 600  # of each call's arguments and result that a report keeps; a pull request's body clamps further


def commit_message(task: Task, session: str) -> str:
    """The message of the commit that the harness makes of what the model left uncommitted."""
    first = next((line.strip() for line in task.text.splitlines() if line.strip()), "Work of a session")
    subject = first if len(first) <= SUBJECT_CHARS else first[: SUBJECT_CHARS - 3].rstrip() + "..."
    trailers = "".join(f"Co-authored-by: {name}\n" for name in task.wishes.co_authors)
    return f"{subject}\n\nagent-harness session {session}\n" + (f"\n{trailers}" if trailers else "")


def make_report(
    trace: Path, session: str, task: Task, summary: str, budget: Budget, model: str, surface: str
) -> Callable[[tuple[ChangedFile, ...]], Report]:
    """A function from the changed files to the whole report; the trace is read when it is called."""

    def report(changes: tuple[ChangedFile, ...]) -> Report:
        plan, lines = _fold(read(trace))
        return Report(
            session=session,
            task=task,
            summary=summary,
            plan=plan,
            changes=changes,
            trace=lines,
            turns=budget.turns,
            tokens=budget.tokens,
            cost_usd=budget.cost_usd,
            model=model,
            surface=surface,
        )

    return report


def heads_pushed(records: Iterable[Record]) -> set[str]:
    """Ids of the commits that the session pushed or was about to push: what the remote's branch may be at by its own doing."""
    intents = (record for record in records if record["type"] == "intent" and record["effect"] == "push")
    return {str(record["key"]).rpartition(" ")[2] for record in intents}


def _fold(records: Iterable[Record]) -> tuple[Plan, tuple[TraceLine, ...]]:
    plan = Plan()
    asked: dict[JsonValue, str] = {}
    lines: list[TraceLine] = []
    for record in records:
        match record["type"]:
            case "plan":
                plan = read_plan(record)
            case "tool_call":
                arguments = record["arguments"]
                text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
                asked[record["id"]] = clip(text, LINE_CHARS)[0]
            case "tool_result":
                result = clip(str(record["content"]), LINE_CHARS)[0]
                lines.append(TraceLine(str(record["name"]), asked.pop(record["id"], ""), result, bool(record["ok"])))
            case _:
                pass
    return plan, tuple(lines)


def read_plan(record: Record) -> Plan:
    """The plan in a `plan` record."""
    todos, notes = record["todos"], record["notes"]
    assert isinstance(todos, list)
    assert isinstance(notes, list)
    steps: list[Step] = []
    for todo in todos:
        assert isinstance(todo, dict)
        status = todo["status"]
        assert status in ("pending", "in_progress", "done")
        steps.append(Step(str(todo["content"]), status))
    return Plan(tuple(steps), tuple(str(note) for note in notes))
