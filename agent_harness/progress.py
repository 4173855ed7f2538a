"""Says what is being done when that takes over a second: whoever does it says so here, and a front decides what is shown.

    with doing("cloning shop.git") as step:
        step.detail = "receiving objects 45%"

Who watches is a context variable, which the tasks of a session inherit: what lies deep below (a fetch, a snapshot) needs no
parameter for it through every layer, and without anybody who watches it costs nothing.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Protocol

GIT_PROGRESS = re.compile(
    rb"(?:remote: )?((?:Enumerating|Counting|Compressing|Receiving|Writing|Unpacking) objects|Resolving deltas): +(\d+)(%?)"
)
LONGEST_LINE = 1 << 12  # bytes of a line of git that may be progress


@dataclass(eq=False)
class Step:
    """One thing that is being done.

    Attributes:
        detail: how far it is; may be changed while it lasts.
        fleeting: it is over before a session is made, whose refusal is one line and nothing else: shown only where that can be
            taken back, on a terminal.
    """

    what: str
    fleeting: bool = False
    detail: str = ""


class Watcher(Protocol):
    """Shows steps. Called in the event loop's thread."""

    def begin(self, step: Step) -> None:
        """It begins."""
        ...

    def end(self, step: Step, *, done: bool) -> None:
        """It ended, `done` or by an error."""
        ...


watcher: ContextVar[Watcher | None] = ContextVar("watcher", default=None)


@contextmanager
def doing(what: str, *, fleeting: bool = False) -> Generator[Step]:
    """What happens in the block takes a while, perhaps; see `Step`."""
    step, shown = Step(what, fleeting), watcher.get()
    if shown is None:
        yield step
        return
    shown.begin(step)
    try:
        yield step
    except BaseException:
        shown.end(step, done=False)
        raise
    shown.end(step, done=True)


class GitProgress:
    """Takes the progress out of what git says on stderr, and keeps the step's detail up to date with it."""

    def __init__(self, step: Step) -> None:
        self._step = step
        self._rest = b""

    def take(self, data: bytes) -> bytes:
        """What of this piece is no progress; the last line waits until it has an end."""
        *lines, self._rest = re.split(rb"(?<=[\r\n])", self._rest + data)
        kept = b"".join(line for line in lines if not self._is_progress(line))
        if len(self._rest) > LONGEST_LINE:
            kept, self._rest = kept + self._rest, b""
        return kept

    def close(self) -> bytes:
        """The last line, when it had no end."""
        return b"" if self._is_progress(self._rest) else self._rest

    def _is_progress(self, line: bytes) -> bool:
        found = GIT_PROGRESS.match(line)
        if found is not None:
            self._step.detail = f"{found[1].decode().lower()} {found[2].decode()}{found[3].decode()}"
        return found is not None
