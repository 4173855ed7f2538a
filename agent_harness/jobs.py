"""Background jobs of one session: each has an owner, so that none outlives it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio
from anyio.abc import TaskGroup


class JobTable:
    """Runs jobs in the session's task group.

    Args:
        tasks: the session's task group; cancelling it ends every job.
    """

    def __init__(self, tasks: TaskGroup) -> None:
        self._tasks = tasks
        self._scopes: dict[str, anyio.CancelScope] = {}
        self._ended: dict[str, anyio.Event] = {}

    def start(self, job: str, body: Callable[[], Awaitable[None]]) -> None:
        """Run `body` under that id."""
        self._scopes[job] = anyio.CancelScope()
        self._ended[job] = anyio.Event()
        self._tasks.start_soon(self._run, job, body)

    async def _run(self, job: str, body: Callable[[], Awaitable[None]]) -> None:
        try:
            with self._scopes[job]:
                await body()
        finally:
            del self._scopes[job]
            self._ended[job].set()

    async def stop(self, job: str) -> bool:
        """Cancel a job and wait until it is gone; False when none of that id still runs."""
        scope = self._scopes.get(job)
        if scope is None:
            return False
        scope.cancel()
        await self._ended[job].wait()
        return True

    async def stop_all(self) -> tuple[str, ...]:
        """Cancel every job, wait until all are gone, and name them."""
        jobs = self.running()
        for job in jobs:
            await self.stop(job)
        return jobs

    def running(self) -> tuple[str, ...]:
        """Ids of the jobs that still run, oldest first."""
        return tuple(self._scopes)
