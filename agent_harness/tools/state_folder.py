"""The harness's own folder in the worktree: copies of what the trace knows, never part of the work."""

from __future__ import annotations

from contextlib import suppress

from agent_harness.errors import ToolFailed
from agent_harness.surfaces.base import Surface

STATE_FOLDERS = (".agent", ".agent-traces")


async def put_state(surface: Surface, path: str, data: bytes) -> None:
    """Write a file below one of these folders, made or replaced; the folder ignores itself, so that no add takes it along.

    Raises:
        ToolFailed: something else is in its place.
    """
    try:
        await surface.write(path, data)
    except ToolFailed:
        with suppress(ToolFailed):
            await surface.write(f"{path.split('/')[0]}/.gitignore", b"*\n", create=True)
        await surface.write(path, data, create=True)
