"""The file half of a surface whose worktree lies on this machine: `Surface.read`, `write`, `stat` and `list`."""

from __future__ import annotations

from functools import partial

import anyio.to_thread

from agent_harness.errors import SurfaceLost
from agent_harness.surfaces.base import Chunk, Entry, FileStat
from agent_harness.surfaces.files import HostFiles

READ_AT_ONCE = 1 << 18  # bytes that take less time to read than a thread takes to be asked


class OnDisk:
    """What is asked before the surface opened its files, or after it closed, raises `SurfaceLost`."""

    _files: HostFiles | None = None
    _closed: bool = False

    def _opened(self) -> HostFiles:
        if self._files is None or self._closed:
            raise SurfaceLost("the workplace of this session is closed")
        return self._files

    async def read(self, path: str, offset: int = 0, size: int | None = None) -> Chunk:
        """As `Surface.read`."""
        files = self._opened()
        if size is not None and size <= READ_AT_ONCE:
            return files.read(path, offset, size)
        return await anyio.to_thread.run_sync(files.read, path, offset, size)

    async def write(self, path: str, data: bytes, *, mode: int | None = None, create: bool = False) -> None:
        """As `Surface.write`."""
        await anyio.to_thread.run_sync(partial(self._opened().write, path, data, mode=mode, create=create))

    async def stat(self, path: str) -> FileStat:
        """As `Surface.stat`."""
        return self._opened().stat(path)

    async def list(self, path: str) -> list[Entry]:
        """As `Surface.list`."""
        return await anyio.to_thread.run_sync(self._opened().list, path)
