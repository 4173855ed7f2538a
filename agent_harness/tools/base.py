"""What a tool is: a name, an argument model, an async body that is given a surface; and how one is declared."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, Literal, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict

from agent_harness.events import Event
from agent_harness.plan import Plan
from agent_harness.surfaces.base import Surface
from agent_harness.surfaces.changes import Changeable

RESULT_CHARS = 4_000  # what the model reads of one result, unless the tool has a window of its own (design section 4)


class Arguments(BaseModel):
    """Base of every argument model: unknown keys and wrong types are errors, nothing is coerced."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Jobs(Protocol):
    """Background jobs of one session; owned by the session, so that none outlives it."""

    def start(self, job: str, body: Callable[[], Awaitable[None]]) -> None:
        """Run `body` in the session's task group under that id; ending the job cancels it."""
        ...

    async def stop(self, job: str) -> bool:
        """Cancel a job and wait until it is gone; False when there is none of that id that still runs."""
        ...

    def running(self) -> tuple[str, ...]:
        """Ids of the jobs that still run, oldest first."""
        ...


@dataclass
class ToolContext:
    """What a tool may touch. One per session.

    Attributes:
        surface: where files are and commands run.
        outputs: folder in the session folder where whole outputs are kept, one file a call: `<call id>.txt`, 0600.
        emit: records an event.
        check: the guards once more, for a shell command or a git argv right before it runs; raises `ToolFailed`.
        jobs: background jobs.
        branch: the session's branch, `agent/<id>`.
        call_id: id of the call that runs now; set by the dispatcher (a copy for each call).
        state: what persists between calls.
        deny: the person's extra denied globs, for tools that hand a path to a program.
        co_authors: `Name <mail>` of whoever is named in the commits.
        changeable: which paths may be changed.
        push: pushes the session's branch as it is committed and returns what to tell the model, or raises `ToolFailed`; None
            where no session stands behind.
    """

    surface: Surface
    outputs: Path
    emit: Callable[[Event], object]
    check: Callable[[str, Mapping[str, object]], None]
    jobs: Jobs
    branch: str
    call_id: str = ""
    state: SessionState = field(default_factory=lambda: SessionState())
    deny: tuple[str, ...] = ()
    co_authors: tuple[str, ...] = ()
    changeable: Changeable = field(default_factory=Changeable)
    push: Callable[[], Awaitable[str]] | None = None


@dataclass
class SessionState:
    """What persists between calls. Shared by the copies of a `ToolContext`.

    Attributes:
        cwd: where the next shell command starts, relative to the worktree.
        plan: the model's plan.
        seen: path -> change token when `read_file` or `edit_file` last gave its content to the model.
        job_logs: id of a background job -> the file with its output, in the order of their start.
    """

    cwd: str = "."
    plan: Plan = field(default_factory=Plan)
    seen: dict[str, str] = field(default_factory=dict[str, str])
    job_logs: dict[str, Path] = field(default_factory=dict[str, Path])


@dataclass(frozen=True, slots=True)
class Output:
    """What a tool's body returns: text of any length; the dispatcher clips it to the model's window.

    Attributes:
        text: bounded by the tool itself to a few hundred KiB at most; a longer output was written to `stored` meanwhile.
        window: the tool has its own window: `text` is not clipped again.
        exit_code: of a command.
        ok: False makes it an error result that is still an answer (a command that exits 1 is *not* an error of the tool).
        stored: the file in `outputs` that holds the whole output, when the tool kept it itself.
        truncated: `text` leaves something out (it says what).
    """

    text: str
    window: bool = False
    exit_code: int | None = None
    ok: bool = True
    stored: Path | None = None
    truncated: bool = False


A = TypeVar("A", bound=Arguments)
Needs = Literal["exec", "git"]


@dataclass(frozen=True, slots=True)
class Tool(Generic[A]):
    """One tool: dispatcher, model and MCP read this same definition.

    Attributes:
        reads_only: may run together with other calls; anything else runs alone.
        needs: capabilities that the surface must have for the tool to be offered.
    """

    name: str
    description: str
    arguments: type[A]
    body: Callable[[A, ToolContext], Awaitable[Output]]
    reads_only: bool
    needs: frozenset[Needs] = frozenset()


def tool(
    name: str, arguments: type[A], *, reads_only: bool, needs: frozenset[Needs] = frozenset()
) -> Callable[[Callable[[A, ToolContext], Awaitable[Output]]], Tool[A]]:
    """Declare an async function as a tool; its docstring is the description that the model reads."""

    def declare(body: Callable[[A, ToolContext], Awaitable[Output]]) -> Tool[A]:
        return Tool(name, " ".join((body.__doc__ or "").split()), arguments, body, reads_only, needs)

    return declare
