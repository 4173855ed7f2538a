"""Runs `agent-harness` and can end it by SIGKILL at the n-th point of its publishing; a driver for tests, outside the package.

    python -m tests.sessions.killed_at LOG NUMBER publish SESSION

The points are seen from outside by Python's own profiling hook, so nothing in the package knows of them: before and after each
event of the trace, before each git process, once it runs and after it ended, before and after each request of the REST client.
Every point is a line in LOG; at point NUMBER the process ends as if the machine had taken it away. 0 never does.
Only what happens once publishing has begun counts.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path
from types import CodeType, FrameType

# What publishing needs is imported before the hook is set: it is slow, and imports are no points.
import github  # noqa: F401 # pyright: ignore[reportUnusedImport]
from requests import Session as HttpSession

from agent_harness import inert_git, republish  # noqa: F401 # pyright: ignore[reportUnusedImport]
from agent_harness.__main__ import main
from agent_harness.inert_git import Git
from agent_harness.publishing.publisher import Publisher
from agent_harness.trace import Trace

# What is called, and what the points before it and after it are named.
CODES: dict[CodeType, tuple[str, str]] = {
    Trace.emit.__code__: ("before event", "after event"),
    Git._environment.__code__: ("before git", ""),  # pyright: ignore[reportPrivateUsage] - asked for right before a process
    inert_git._limit.__code__: ("git runs", ""),  # pyright: ignore[reportPrivateUsage] - the first thing after its start
    Git._clean.__code__: ("after git", ""),  # pyright: ignore[reportPrivateUsage] - asked for right after one
    HttpSession.send.__code__: ("before request", "after request"),
}
BEGIN = Publisher.publish.__code__


class Points:
    """Counts the points, and ends this process at one of them."""

    def __init__(self, log: Path, fatal: int) -> None:
        self._log = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._fatal = fatal
        self._number = 0
        self._begun = False
        self._lock = threading.Lock()

    def __call__(self, frame: FrameType, what: str, argument: object) -> None:
        del argument
        code = frame.f_code
        if code is BEGIN:
            self._begun = True
        if not self._begun or code not in CODES or what not in ("call", "return"):
            return
        name = CODES[code][what == "return"]
        if name:
            self._reached(f"{name} {_detail(frame)}".rstrip())

    def _reached(self, name: str) -> None:
        with self._lock:
            self._number += 1
            os.write(self._log, f"{self._number} {name}\n".encode())
            if self._number == self._fatal:
                os.kill(os.getpid(), signal.SIGKILL)


def _detail(frame: FrameType) -> str:
    event, request = frame.f_locals.get("event"), frame.f_locals.get("request")
    if event is not None:
        return str(getattr(event, "step", getattr(event, "effect", event.type)))
    if request is not None:
        return f"{request.method} {request.path_url}"
    return ""


if __name__ == "__main__":
    points = Points(Path(sys.argv[1]), int(sys.argv[2]))
    sys.argv[1:] = sys.argv[3:]
    threading.setprofile(points)
    sys.setprofile(points)
    main()
