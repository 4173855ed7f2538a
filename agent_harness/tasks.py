"""Task groups whose error is the error itself: the first one that a task raised, not a group around it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import cast

import anyio
from anyio.abc import TaskGroup


@asynccontextmanager
async def task_group() -> AsyncGenerator[TaskGroup]:
    """An anyio task group; when tasks fail, the others are cancelled and the first error is raised as it is."""
    try:
        async with anyio.create_task_group() as tasks:
            yield tasks
    except BaseExceptionGroup as group:
        raise _first_of(group) from None


def _first_of(group: BaseExceptionGroup[BaseException]) -> BaseException:
    first = group.exceptions[0]
    return _first_of(cast("BaseExceptionGroup[BaseException]", first)) if isinstance(first, BaseExceptionGroup) else first
