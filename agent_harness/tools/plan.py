"""TodoWrite: the model's plan, replaced as a whole."""

from __future__ import annotations

import json
from typing import Literal

from pydantic import Field

from agent_harness.errors import ToolFailed
from agent_harness.events import JsonValue, PlanChanged
from agent_harness.plan import Plan, Step
from agent_harness.tools.base import Arguments, Output, ToolContext, tool
from agent_harness.tools.state_folder import put_state

MAX_ITEMS = 50
MAX_CHARS = 500
STATE_FILE = ".agent/state.json"
MARKS = {"pending": " ", "in_progress": ">", "done": "x"}


class Todo(Arguments):
    """One step as the model sends it."""

    content: str
    status: Literal["pending", "in_progress", "done"]


class TodoWriteArguments(Arguments):
    """The whole new plan."""

    todos: list[Todo]
    notes: list[str] = Field(default_factory=list[str])


@tool("TodoWrite", TodoWriteArguments, reads_only=False)
async def todo_write(arguments: TodoWriteArguments, ctx: ToolContext) -> Output:
    """Replace your whole plan: at most 50 todos, at most one in_progress."""
    _check(arguments)
    plan = Plan(tuple(Step(todo.content, todo.status) for todo in arguments.todos), tuple(arguments.notes))
    ctx.state.plan = plan
    todos: list[dict[str, JsonValue]] = [{"content": step.content, "status": step.status} for step in plan.todos]
    ctx.emit(PlanChanged(todos, list(plan.notes)))
    state = json.dumps({"todos": todos, "notes": list(plan.notes)}, ensure_ascii=False, indent=1)
    lines = [f"[{MARKS[step.status]}] {_short(step.content)}" for step in plan.todos]
    done = sum(step.status == "done" for step in plan.todos)
    text = f"Plan saved: {done} of {len(plan.todos)} done."
    try:
        await put_state(ctx.surface, STATE_FILE, state.encode("utf-8", "backslashreplace"))
    except ToolFailed as failure:
        # The trace holds the plan; the file is a copy for people, so a damaged one costs nothing but itself.
        text += f" ({STATE_FILE} was not written: {failure})"
    return Output("\n".join([text, *lines]))


def _check(arguments: TodoWriteArguments) -> None:
    """Raise `ToolFailed` for what the schema does not say."""
    if len(arguments.todos) > MAX_ITEMS:
        raise ToolFailed(f"`todos` has {len(arguments.todos)} items; at most {MAX_ITEMS}: merge steps. The plan is unchanged.")
    if len(arguments.notes) > MAX_ITEMS:
        raise ToolFailed(f"`notes` has {len(arguments.notes)} items; at most {MAX_ITEMS}. The plan is unchanged.")
    texts = [(f"todos[{i}].content", todo.content) for i, todo in enumerate(arguments.todos)]
    texts += [(f"notes[{i}]", note) for i, note in enumerate(arguments.notes)]
    for name, text in texts:
        if not text.strip():
            raise ToolFailed(f"`{name}` is empty; say what it is about. The plan is unchanged.")
        if len(text) > MAX_CHARS:
            raise ToolFailed(f"`{name}` has {len(text)} characters; at most {MAX_CHARS}. The plan is unchanged.")
    working = [i for i, todo in enumerate(arguments.todos) if todo.status == "in_progress"]
    if len(working) > 1:
        named = ", ".join(f"todos[{i}]" for i in working)
        raise ToolFailed(f"{named} are all in_progress; at most one step is. The plan is unchanged.")


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 60 else text[:57] + "..."
