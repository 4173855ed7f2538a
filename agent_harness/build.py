"""The one file that knows every concrete class: `Settings` in, a ready `Session` out; all is checked before anything is made."""

from __future__ import annotations

import platform
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

import anyio.to_thread

from agent_harness import __version__
from agent_harness.assignment import Assignment, forge_of, look_up, renewal_of
from agent_harness.budget import Budget, Price
from agent_harness.errors import ConfigError
from agent_harness.events import Event, JsonValue, Notice, SessionStarted
from agent_harness.guards import default_guards
from agent_harness.hooks import Hooks
from agent_harness.in_place import describe_unconfined, without_bubblewrap
from agent_harness.inert_git import Git, Transport
from agent_harness.model.openai import OpenAIModel
from agent_harness.model.prices import price_of
from agent_harness.publishing.base import Forge
from agent_harness.publishing.publisher import Publisher, Renew
from agent_harness.redact import Redactor
from agent_harness.session import Session
from agent_harness.settings import Settings
from agent_harness.surfaces import bwrap
from agent_harness.surfaces.base import Surface
from agent_harness.surfaces.changes import Changeable
from agent_harness.surfaces.host import HostSurface
from agent_harness.surfaces.local import CloneSource, LocalSurface
from agent_harness.surfaces.paths import Denied
from agent_harness.task import Permits, Task
from agent_harness.tasks import task_group
from agent_harness.trace import Trace
from agent_harness.uncommitted import note_of

# Variables whose values are credentials by a word of their name; one that ends in _FILE, _URL or the like says where, not what.
CREDENTIAL = re.compile(r"(?:^|_)(?:[A-Z0-9]*KEY|TOKENS?|SECRETS?|PASSWORDS?|PASSWD|CREDENTIALS?)(?:_|$)", re.IGNORECASE)
NOT_CREDENTIAL = re.compile(r"_(?:FILE|PATH|DIR|URL|ID|NAME|SOCK)$", re.IGNORECASE)
ID_LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"  # no look-alikes


async def prepare(settings: Settings, say: Callable[[str], None]) -> Session:
    """A session that can run, after everything that may be wrong with the settings was found.

    Args:
        settings: what the person wants.
        say: shows a warning at once, before the session tells anything.

    Raises:
        ConfigError: something is wrong; nothing was created or spent.
        SurfaceError: the remote or the sandbox cannot be reached just now.
    """
    model = OpenAIModel(settings.endpoint)
    model.warm()  # the SDK takes a third of a second to import: that runs beside everything below
    Denied(settings.deny)  # a glob that cannot be read is told before anything is made
    Changeable(settings.permits)
    known = [settings.endpoint.api_key, *credentials_in(settings.environ)]
    session_id = new_id()
    folder = settings.home / "sessions" / session_id
    with TemporaryDirectory(prefix="agent-harness-") as scratch:
        assignment = await _look_around(settings, Git(Path(scratch), Redactor(known).text), Path(scratch))
    try:
        return await _make(settings, assignment, model, known, session_id, folder, say)
    except BaseException:
        if assignment.place is not None:
            assignment.place.hold.release()
        raise


async def _make(
    settings: Settings,
    assignment: Assignment,
    model: OpenAIModel,
    known: Sequence[str],
    session_id: str,
    folder: Path,
    say: Callable[[str], None],
) -> Session:
    origin = assignment.origin
    price = await anyio.to_thread.run_sync(_price, settings)
    branch = f"agent/{session_id}"
    task = Task(
        repo=str(origin.checkout or origin.source.safe_url),
        text=assignment.text,
        base=origin.base,
        base_commit=origin.base_commit,
        default_branch=origin.default_branch,
        issue=assignment.issue,
        deny=settings.deny,
        limits=settings.limits,
        instructions=settings.instructions,
        wishes=replace(settings.wishes, draft=settings.draft),
        permits=settings.permits,
    )
    emit = _Late()
    worktree = folder / "worktree" if assignment.place is None else assignment.place.checkout.root
    hooks = _hooks(settings, task, session_id, branch, worktree, folder, emit)
    _make_folder(folder, settings)
    secrets_of = [each.secrets for each in (origin.source, origin.target) if each is not None]
    redactor = Redactor([*known, *assignment.access.secrets, *(secret for several in secrets_of for secret in several)])
    trace = emit.trace = Trace(folder / "trace.jsonl", session_id, redactor)
    git = Git(folder, redactor.text)
    surface = _surface(settings, assignment, task, branch, folder, git, trace.emit)
    publisher = None
    if settings.pull_request and origin.target is not None:
        forge = forge_of(assignment.access, origin.target, folder)
        renew = renewal_of(assignment.access, origin.target)
        publisher = make_publisher(git, folder, origin.target, forge, trace, renew)
    trace.emit(
        SessionStarted(
            task=_recorded(task),
            surface=surface.name,
            model=model.name,
            limits=cast("dict[str, JsonValue]", asdict(settings.limits)),
            branch=branch,
            versions={"agent_harness": __version__, "python": platform.python_version()},
        )
    )
    _announce(settings, assignment, trace, say)
    budget = Budget(settings.limits, price)
    guards = default_guards()
    return Session(session_id, folder, task, branch, settings.draft, surface, model, trace, hooks, guards, budget, publisher)


def _surface(
    settings: Settings,
    assignment: Assignment,
    task: Task,
    branch: str,
    folder: Path,
    git: Git,
    emit: Callable[[Event], object],
) -> Surface:
    origin, place = assignment.origin, assignment.place
    if place is None:
        source = CloneSource(origin.source, origin.base_ref, task.base_commit, task.default_branch)
        return LocalSurface(folder, git, source, branch, settings.deny)
    credentials = {settings.endpoint.api_key, *credentials_in(settings.environ)}
    given = {name: value for name, value in settings.environ.items() if value not in credentials}
    return HostSurface(
        replace(place, environ=given),
        folder,
        git,
        branch,
        task.default_branch,
        deny=settings.deny,
        confined=settings.confine,
        proposes=settings.pull_request,
        emit=emit,
    )


def _announce(settings: Settings, assignment: Assignment, trace: Trace, say: Callable[[str], None]) -> None:
    """What a person has to know of the place before anything happens in it."""
    origin, place = assignment.origin, assignment.place
    if place is not None and not settings.confine:
        warning = describe_unconfined(place.facts)
        say(warning)
        trace.emit(Notice("unconfined", warning))
    if origin.left_out:
        trace.emit(Notice("uncommitted_left_out", origin.left_out))


def _make_folder(folder: Path, settings: Settings) -> None:
    try:
        folder.mkdir(parents=True, mode=0o700)
    except OSError as error:
        raise ConfigError(
            f"sessions cannot be kept in {str(settings.home)!r} ({error.strerror}); set AGENT_HARNESS_HOME to a folder of yours"
        ) from error


def new_id() -> str:
    """A session id: sorts by time, can be typed, fits a branch name."""
    tail = "".join(secrets.choice(ID_LETTERS) for _ in range(4))
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{tail}"


def credentials_in(environ: Mapping[str, str]) -> list[str]:
    """Values of the environment that are credentials by their variable's name."""
    return [value for name, value in environ.items() if CREDENTIAL.search(name) and not NOT_CREDENTIAL.search(name)]


class _Late:
    """Hooks are checked before there is a trace to write to."""

    trace: Trace | None = None

    def __call__(self, event: Event) -> None:
        assert self.trace is not None
        self.trace.emit(event)


def _recorded(task: Task) -> dict[str, JsonValue]:
    """The task as the trace has it; `republish` reads it back."""
    issue: JsonValue = None if task.issue is None else task.issue.number
    recorded: dict[str, JsonValue] = {
        "repo": task.repo,
        "base": task.base,
        "base_commit": task.base_commit,
        "text": task.text,
        "issue": issue,
    }
    if task.issue is not None:
        recorded |= {"issue_author": task.issue.author, "issue_url": task.issue.url}
    recorded |= {name: value for name, value in cast("dict[str, JsonValue]", asdict(task.wishes)).items() if value}
    if task.permits != Permits():
        recorded["permits"] = cast("dict[str, JsonValue]", asdict(task.permits))
    return recorded


def make_publisher(
    git: Git, folder: Path, target: Transport, forge: Forge, trace: Trace, renew: Renew | None = None
) -> Publisher:
    """A publisher of the work of the session in that folder."""
    return Publisher(
        git,
        folder / "base.git",
        folder / "quarantine.git",
        target,
        forge,
        trace.emit,
        trace.sync,
        trace.redactor.text,
        renew,
    )


async def _look_around(settings: Settings, git: Git, scratch: Path) -> Assignment:
    """Look at the repository and try the sandbox, side by side; the first that fails is the one that is told."""
    found: list[Assignment] = []

    async def look() -> None:
        assignment = await look_up(git, settings)
        origin = assignment.origin
        if assignment.place is None and origin.checkout is not None:
            origin = replace(origin, left_out=await note_of(git, scratch, origin.checkout))
        found.append(replace(assignment, origin=origin))

    async def check() -> None:
        try:
            await bwrap.check()
        except ConfigError as error:
            if settings.surface == "host":
                raise without_bubblewrap(error) from error
            raise

    try:
        async with task_group() as tasks:
            tasks.start_soon(look)
            if settings.confine:
                tasks.start_soon(check)
    except BaseException:
        for assignment in found:
            if assignment.place is not None:
                assignment.place.hold.release()
        raise
    return found[0]


def _price(settings: Settings) -> Price | None:
    if settings.price_in is not None and settings.price_out is not None:
        return Price(settings.price_in, settings.price_out)
    price = price_of(settings.endpoint.model, settings.endpoint.base_url, settings.limits.max_tokens)
    if price is None and settings.limits.max_cost_usd is not None:
        raise ConfigError(
            f"the price of {settings.endpoint.model!r} is not known, so the ceiling of "
            f"${settings.limits.max_cost_usd} cannot be kept; "
            "give --price-in and --price-out (US dollars per million tokens), or --max-cost none"
        )
    return price


def _hooks(
    settings: Settings,
    task: Task,
    session_id: str,
    branch: str,
    worktree: Path,
    folder: Path,
    emit: Callable[[Event], object],
) -> Hooks:
    about: dict[str, JsonValue] = {
        "version": __version__,
        "worktree": str(worktree),
        "branch": branch,
        "default_branch": task.default_branch,
        "issue": None if task.issue is None else task.issue.number,
    }
    common: dict[str, JsonValue] = {
        "session_id": session_id,
        "transcript_path": str(folder / "trace.jsonl"),
        "cwd": str(settings.started_in),
        "permission_mode": "bypassPermissions",
        "agent": about,
    }
    hooks = Hooks(settings.hooks, settings.started_in, settings.environ, emit, common)
    hooks.check(worktree)
    return hooks
