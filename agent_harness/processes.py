"""Starting a process or a thread while the machine has none to give: a storm of processes passes, so it is tried again."""

from __future__ import annotations

import errno
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio

T = TypeVar("T")

PATIENCE_S = 12.0  # thirty thousand killed processes are gone within some seconds
FIRST_WAIT_S = 0.02
LONGEST_WAIT_S = 1.0


async def patiently(start: Callable[[], Awaitable[T]]) -> T:
    """What `start` gives, tried again for `PATIENCE_S` seconds while it fails for want of processes, threads or memory.

    Raises:
        OSError: the last failure (as `RuntimeError` for a thread); any other one at once.
    """
    until = time.monotonic() + PATIENCE_S
    wait_s = FIRST_WAIT_S
    while True:
        try:
            return await start()
        except (OSError, RuntimeError) as error:
            if not _for_want_of_room(error) or time.monotonic() >= until:
                raise
        await anyio.sleep(wait_s)
        wait_s = min(wait_s * 2, LONGEST_WAIT_S)


async def start_whole(start: Callable[[], Awaitable[T]]) -> T:
    """A process that `start` opens, patiently; a cancellation waits until it is there.

    One that is half started has pipes that nobody would close.

    Raises:
        OSError: as `patiently`.
    """
    with anyio.CancelScope(shield=True):
        return await patiently(start)
    raise AssertionError("a shielded scope ends by itself only")


def _for_want_of_room(error: OSError | RuntimeError) -> bool:
    if isinstance(error, OSError):
        return error.errno in (errno.EAGAIN, errno.ENOMEM)
    return "can't start new thread" in str(error)
