from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent_harness.events import JsonValue, PlanChanged
from agent_harness.plan import Plan, Step
from tests.fakes.memory_surface import MemorySurface
from tests.unit.tools.bench import Bench

pytestmark = pytest.mark.anyio


def todo(content: str, status: str = "pending") -> dict[str, JsonValue]:
    return {"content": content, "status": status}


async def test_a_plan_is_shown_recorded_and_written(tmp_path: Path) -> None:
    surface = MemorySurface()
    tools = Bench(surface, tmp_path / "o")
    text = await tools.text("TodoWrite", todos=[todo("look", "done"), todo("edit", "in_progress"), todo("test")], notes=["n"])
    assert text == "Plan saved: 1 of 3 done.\n[x] look\n[>] edit\n[ ] test"
    assert tools.context.state.plan == Plan((Step("look", "done"), Step("edit", "in_progress"), Step("test")), ("n",))
    assert [type(event) for event in tools.events] == [PlanChanged]
    state = json.loads((await surface.read(".agent/state.json")).data)
    assert state == {"todos": [todo("look", "done"), todo("edit", "in_progress"), todo("test")], "notes": ["n"]}
    assert (await surface.read(".agent/.gitignore")).data == b"*\n"


async def test_a_new_plan_replaces_the_old_one(tmp_path: Path) -> None:
    surface = MemorySurface({".agent/state.json": "tampered"})
    tools = Bench(surface, tmp_path / "o")
    await tools.text("TodoWrite", todos=[todo("a"), todo("b")])
    await tools.text("TodoWrite", todos=[])
    assert tools.context.state.plan == Plan()
    assert json.loads((await surface.read(".agent/state.json")).data) == {"todos": [], "notes": []}


@pytest.mark.parametrize(
    ("todos", "notes", "said"),
    [
        ([todo("x")] * 51, [], "`todos` has 51 items"),
        ([todo("x" * 501)], [], "`todos[0].content` has 501 characters"),
        ([todo(" ")], [], "`todos[0].content` is empty"),
        ([todo("a", "in_progress"), todo("b", "in_progress")], [], "todos[0], todos[1] are all in_progress"),
        ([], ["x"] * 51, "`notes` has 51 items"),
        ([], ["x" * 501], "`notes[0]` has 501"),
        ([todo("a", "finished")], [], "`todos[0].status`"),
    ],
)
async def test_a_wrong_plan_changes_nothing(
    tmp_path: Path, todos: list[dict[str, JsonValue]], notes: list[str], said: str
) -> None:
    tools = Bench(MemorySurface(), tmp_path / "o")
    assert said in await tools.refused("TodoWrite", todos=list(todos), notes=list(notes))
    assert tools.context.state.plan == Plan()
    assert tools.events == []


async def test_a_state_file_that_cannot_be_written_costs_only_itself(tmp_path: Path) -> None:
    tools = Bench(MemorySurface(links={".agent": "/etc"}), tmp_path / "o")
    text = await tools.text("TodoWrite", todos=[todo("a")])
    assert ".agent/state.json was not written" in text
    assert tools.context.state.plan.todos == (Step("a"),)
