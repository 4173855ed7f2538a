"""The one file that knows every concrete class: `Settings` in, a ready `Session` out; all is checked before anything is made."""

from __future__ import annotations

import platform
import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

import anyio.to_thread

from agent_harness import __version__
from agent_harness.budget import Budget, Price
from agent_harness.errors import ConfigError
from agent_harness.events import Event, JsonValue, SessionStarted
from agent_harness.guards import default_guards
from agent_harness.hooks import Hooks
from agent_harness.inert_git import Git, GitFailed, RemoteRefs, Transport
from agent_harness.model.openai import OpenAIModel
from agent_harness.model.prices import price_of
from agent_harness.publishing.local_forge import LocalForge
from agent_harness.publishing.publisher import Publisher
from agent_harness.redact import Redactor
from agent_harness.session import Session
from agent_harness.settings import Settings
from agent_harness.surfaces import bwrap
from agent_harness.surfaces.local import CloneSource, LocalSurface
from agent_harness.task import Task
from agent_harness.tasks import task_group
from agent_harness.trace import Trace

# Variables whose values are credentials; values that name files or are short words are not.
CREDENTIAL = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL)", re.IGNORECASE)
NOT_CREDENTIAL = re.compile(r"(_FILE|_PATH|_DIR|_URL|_ID)$", re.IGNORECASE)
ID_LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"  # no look-alikes


async def prepare(settings: Settings, say: Callable[[str], None]) -> Session:
    """A session that can run, after everything that may be wrong with the settings was found.

    Args:
        settings: what the person wants.
        say: shows progress on what takes over a second.

    Raises:
        ConfigError: something is wrong; nothing was created or spent.
        SurfaceError: the remote or the sandbox cannot be reached just now.
    """
    model = OpenAIModel(settings.endpoint)
    model.warm()  # the SDK takes a third of a second to import: that runs beside everything below
    transport = Transport(settings.repo)
    redactor = Redactor([settings.endpoint.api_key, *transport.secrets, *credentials_in(settings.environ)])
    session_id = new_id()
    folder = settings.home / "sessions" / session_id
    with TemporaryDirectory(prefix="agent-harness-") as scratch:
        refs = await _check_all(Git(Path(scratch), redactor.text), transport)
    base = _base_of(settings, refs, transport)
    price = await anyio.to_thread.run_sync(_price, settings)
    branch = f"agent/{session_id}"
    task = Task(
        repo=transport.safe_url,
        text=settings.text,
        base=base,
        base_commit=refs.refs[f"refs/heads/{base}"],
        default_branch=refs.default_branch or base,
        deny=settings.deny,
        limits=settings.limits,
    )
    emit = _Late()
    hooks = _hooks(settings, task, session_id, branch, folder, emit)
    folder.mkdir(parents=True, mode=0o700)
    trace = emit.trace = Trace(folder / "trace.jsonl", session_id, redactor)
    git = Git(folder, redactor.text)
    source = CloneSource(transport, f"refs/heads/{base}", task.base_commit, task.default_branch)
    surface = LocalSurface(folder, git, source, branch, settings.deny, say)
    publisher = None
    if settings.pull_request:
        publisher = Publisher(
            git,
            folder / "base.git",
            folder / "quarantine.git",
            transport,
            LocalForge(folder),
            trace.emit,
            trace.sync,
            redactor.text,
        )
    trace.emit(
        SessionStarted(
            task={"repo": task.repo, "base": base, "base_commit": task.base_commit, "text": task.text, "issue": task.issue},
            surface=surface.name,
            model=model.name,
            limits=cast("dict[str, JsonValue]", asdict(settings.limits)),
            branch=branch,
            versions={"agent_harness": __version__, "python": platform.python_version()},
        )
    )
    budget = Budget(settings.limits, price)
    guards = default_guards()
    return Session(session_id, folder, task, branch, settings.draft, surface, model, trace, hooks, guards, budget, publisher)


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


async def _check_all(git: Git, transport: Transport) -> RemoteRefs:
    """Look at the remote and try the sandbox, side by side; the first that fails is the one that is told."""
    found: list[RemoteRefs] = []

    async def look() -> None:
        try:
            found.append(await git.ls_remote(transport))
        except GitFailed as error:
            raise ConfigError(_unreachable(transport, error)) from error

    async with task_group() as tasks:
        tasks.start_soon(look)
        tasks.start_soon(bwrap.check)
    return found[0]


def _unreachable(transport: Transport, error: GitFailed) -> str:
    said = error.stderr.strip().splitlines()
    detail = next((line for line in said if line.startswith(("fatal:", "ERROR:", "remote:"))), said[-1] if said else str(error))
    return (
        f"{transport.safe_url!r} cannot be read as a git repository ({detail.removeprefix('fatal: ')}); "
        "check the URL, that it is reachable from here, and your access to it"
    )


def _base_of(settings: Settings, refs: RemoteRefs, transport: Transport) -> str:
    heads = [name.removeprefix("refs/heads/") for name in refs.refs if name.startswith("refs/heads/")]
    if not heads:
        raise ConfigError(f"{transport.safe_url!r} has no commits yet; push a first commit, then delegate")
    if settings.base is not None and settings.base not in heads:
        some = ", ".join(sorted(heads)[:5])
        raise ConfigError(f"--base {settings.base!r} is no branch of {transport.safe_url!r}; it has: {some}")
    base = settings.base or refs.default_branch
    if base is None or base not in heads:
        raise ConfigError(f"{transport.safe_url!r} names no default branch that exists; say which to start from with --base")
    return base


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


def _hooks(settings: Settings, task: Task, session_id: str, branch: str, folder: Path, emit: Callable[[Event], object]) -> Hooks:
    worktree = folder / "worktree"
    about: dict[str, JsonValue] = {
        "version": __version__,
        "worktree": str(worktree),
        "branch": branch,
        "default_branch": task.default_branch,
        "issue": task.issue,
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
