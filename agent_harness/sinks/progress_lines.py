"""Steps that take over a second, as text: one line that is written anew on a terminal, lines at growing intervals elsewhere."""

from __future__ import annotations

import select
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import anyio

from agent_harness.progress import Step
from agent_harness.sinks.plain_text import clip, one_line

AFTER_S = 1.0  # a step that is over by then is never shown
TICK_S = 0.5
LATER_S = (1.0, 5.0, 15.0, 60.0)  # a line for a pipe when a step is that old, then one for each time the last of these passes
ERASE = "\r\x1b[K"


@dataclass
class _Running:
    step: Step
    begun_s: float
    lines: int = 0


class ProgressLines:
    """Told of every step's begin and end (a `Watcher`), it writes of those that take their time.

    Args:
        write: takes text; never waits.
        terminal: it is one, which understands how to erase a line.
        width: cells of a line of it.
        clock: seconds that only go forward.
    """

    def __init__(
        self, write: Callable[[str], object], *, terminal: bool, width: int = 80, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._write = write
        self._terminal = terminal
        self._width = width
        self._clock = clock
        self._running: list[_Running] = []
        self._on_screen = ""
        self._news = anyio.Event()

    def begin(self, step: Step) -> None:
        """As `Watcher.begin`."""
        self._running.append(_Running(step, self._clock()))
        self._news.set()

    def end(self, step: Step, *, done: bool) -> None:
        """As `Watcher.end`; what was shown gets its last word, unless an error says more."""
        running = next(each for each in self._running if each.step is step)
        self._running.remove(running)
        self._erase()
        if running.lines and done and not step.fleeting:
            self._write(f"{self._fit(step.what)}: done, {_shown(self._clock() - running.begun_s)}\n")

    def tick(self) -> None:
        """Show what is due."""
        now = self._clock()
        if self._terminal:
            self._rewrite(now)
            return
        for running in self._running:
            age = now - running.begun_s
            if not running.step.fleeting and age >= _due(running.lines):
                running.lines += 1
                self._write(self._line(running, age) + "\n")

    def _rewrite(self, now: float) -> None:
        old = [running for running in self._running if now - running.begun_s >= AFTER_S]
        if not old:
            return
        latest = old[-1]
        latest.lines += 1
        line = self._fit(self._line(latest, now - latest.begun_s))
        if line != self._on_screen:
            self._write(f"{ERASE}{line}")
            self._on_screen = line

    def _erase(self) -> None:
        if self._on_screen:
            self._write(ERASE)
            self._on_screen = ""

    def _fit(self, text: str) -> str:
        return clip(one_line(text), self._width - 1) if self._terminal else one_line(text)

    def _line(self, running: _Running, age_s: float) -> str:
        detail = f", {running.step.detail}" if running.step.detail else ""
        return one_line(f"{running.step.what}{detail} ({_shown(age_s)})")

    async def run(self, wait: Callable[[float], Awaitable[object]] = anyio.sleep) -> None:
        """Tick as long as something is being done; until cancelled.

        Args:
            wait: waits that many seconds.
        """
        while True:
            if not self._running:
                self._news = anyio.Event()
                await self._news.wait()
            await wait(TICK_S)
            self.tick()


def _due(lines: int) -> float:
    """Age in seconds at which the next line of a step is due, after so many."""
    return LATER_S[lines] if lines < len(LATER_S) else LATER_S[-1] * (lines - len(LATER_S) + 2)


def _shown(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds // 60:.0f} min {seconds % 60:02.0f} s"


def write_to_stderr(text: str) -> None:
    """Write when that can be done without waiting: a stopped terminal or a full pipe must not stop the session."""
    try:
        poller = select.poll()
        poller.register(sys.stderr.fileno(), select.POLLOUT)
        if any(event & select.POLLOUT for _, event in poller.poll(0)):
            sys.stderr.write(text)
            sys.stderr.flush()
    except (OSError, ValueError):
        return  # nobody listens any more
