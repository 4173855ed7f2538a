"""A local surface on a small origin, opened and closed for a test."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from agent_harness.inert_git import Git, Transport
from agent_harness.surfaces.base import ExecResult, Surface
from agent_harness.surfaces.local import CloneSource, LocalSurface
from tests.sessions.rig import make_origin

BRANCH = "agent/test"


@asynccontextmanager
async def opened_local(
    folder: Path, files: Mapping[str, str | bytes], deny: tuple[str, ...] = ()
) -> AsyncGenerator[LocalSurface]:
    """The surface on a fresh origin with these files; the origin is `origin.git` and the session `session` in the folder."""
    origin = make_origin(folder, files)
    transport = Transport(f"file://{origin}")
    session = folder / "session"
    session.mkdir()
    git = Git(session, lambda text: text)
    refs = await git.ls_remote(transport)
    source = CloneSource(transport, "refs/heads/main", refs.refs["refs/heads/main"], "main")
    surface = LocalSurface(session, git, source, BRANCH, deny)
    try:
        await surface.open()
        yield surface
    finally:
        await surface.close()


async def shell(surface: Surface, command: str, **options: object) -> tuple[ExecResult, str]:
    """Run a command line; its result and its output."""
    pieces: list[bytes] = []
    result = await surface.exec(
        ["bash", "-c", command],
        on_output=lambda data: pieces.append(data) is not None,
        **options,  # pyright: ignore[reportArgumentType]
    )
    return result, b"".join(pieces).decode("utf-8", "replace")
