"""A host surface on a small checkout, opened and closed for a test."""

from __future__ import annotations

import os
import stat
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import anyio.to_thread

from agent_harness.events import Event, SessionStarted
from agent_harness.in_place import take_place
from agent_harness.inert_git import Git
from agent_harness.redact import Redactor
from agent_harness.restore import restore_session
from agent_harness.surfaces.host import HostSurface
from agent_harness.trace import Trace
from tests.fakes.local_origin import BRANCH
from tests.sessions.rig import git, make_origin


def make_checkout(folder: Path, files: Mapping[str, str | bytes]) -> Path:
    """A clone `folder/work` of a fresh origin with these files."""
    checkout = folder / "work"
    git(folder, "clone", "-q", str(make_origin(folder, files)), str(checkout))
    return checkout


@asynccontextmanager
async def opened_host(
    checkout: Path, deny: tuple[str, ...] = (), *, confined: bool = True, events: list[Event] | None = None, **environ: str
) -> AsyncGenerator[HostSurface]:
    """The surface on a checkout; the session is `session` beside it."""
    session = checkout.parent / "home" / "sessions" / "session"
    session.mkdir(parents=True)
    runner = Git(session, lambda text: text)
    trace = Trace(session / "trace.jsonl", "session", Redactor([]))
    trace.emit(SessionStarted({"repo": str(checkout), "text": "wreck it"}, "host", "none", {}, BRANCH, {}))
    environ = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], **environ}
    place = await take_place(runner, checkout, checkout.parent / "home", environ, confined=confined)
    emit = ([] if events is None else events).append
    surface = HostSurface(place, session, runner, BRANCH, "main", deny=deny, confined=confined, proposes=True, emit=emit)
    try:
        await surface.open()
        yield surface
    finally:
        await surface.close()
        trace.close()


async def restore(checkout: Path, *, undo: bool = False) -> int:
    """`agent-harness restore` of that session."""
    return await anyio.to_thread.run_sync(partial(restore_session, checkout.parent / "home", "last", undo=undo))


def state(root: Path) -> dict[bytes, tuple[int, bytes]]:
    """Mode and bytes of everything in a folder, `.git` included; of a link where it leads to."""
    found: dict[bytes, tuple[int, bytes]] = {}
    for folder, folders, files in os.walk(root):
        for path in (Path(folder, name) for name in (*folders, *files)):
            mode, data = path.lstat().st_mode, b""
            if stat.S_ISLNK(mode):
                data = os.fsencode(path.readlink())
            elif stat.S_ISREG(mode):
                data = path.read_bytes()
            found[os.fsencode(path.relative_to(root))] = (mode, data)
    return found
