"""A machine that has no process to give just now is asked again; any other failure is one at once."""

from __future__ import annotations

import errno
from collections.abc import Awaitable, Callable

import anyio
import pytest

from agent_harness import processes
from agent_harness.processes import patiently, start_whole

pytestmark = pytest.mark.anyio


def failing(times: int, error: Exception) -> tuple[list[int], Callable[[], Awaitable[str]]]:
    tries: list[int] = []

    async def start() -> str:
        tries.append(1)
        if len(tries) <= times:
            raise error
        return "started"

    return tries, start


@pytest.mark.parametrize(
    "error", [BlockingIOError(errno.EAGAIN, "no"), OSError(errno.ENOMEM, "no"), RuntimeError("can't start new thread")]
)
async def test_want_of_room_passes(error: Exception) -> None:
    tries, start = failing(3, error)
    assert await patiently(start) == "started"
    assert len(tries) == 4


@pytest.mark.parametrize("error", [FileNotFoundError(errno.ENOENT, "no"), RuntimeError("other")])
async def test_any_other_failure_is_told_at_once(error: Exception) -> None:
    tries, start = failing(1, error)
    with pytest.raises(type(error)):
        await patiently(start)
    assert len(tries) == 1


async def test_patience_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "PATIENCE_S", 0.1)
    _, start = failing(1_000, BlockingIOError(errno.EAGAIN, "no"))
    with pytest.raises(BlockingIOError):
        await patiently(start)


async def test_a_cancellation_waits_until_a_start_is_through() -> None:
    begun, through = anyio.Event(), anyio.Event()
    ended: list[str] = []

    async def start() -> str:
        begun.set()
        await through.wait()
        ended.append("whole")
        return "started"

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(start_whole, start)
        await begun.wait()
        tasks.cancel_scope.cancel()
        through.set()
    assert ended == ["whole"]
