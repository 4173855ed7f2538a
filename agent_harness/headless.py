"""Runs one session without a screen of its own: shows its trace, and turns signals into a stop that loses nothing."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from enum import Enum

import anyio
from anyio.abc import TaskGroup, TaskStatus

from agent_harness import build
from agent_harness.errors import HarnessError
from agent_harness.events import EXIT_CODES
from agent_harness.progress import watcher
from agent_harness.session import Session
from agent_harness.settings import Settings
from agent_harness.sinks import jsonl
from agent_harness.sinks.console import Console
from agent_harness.sinks.plain_text import one_line
from agent_harness.sinks.progress_lines import ProgressLines, write_to_stderr
from agent_harness.sinks.pump import Stream, pump

SECOND_PRESS_S = 2.0  # a second Ctrl-C within this time does not wait for the clean-up of the first


class Output(Enum):
    """What stdout carries."""

    PLAIN = "plain"
    JSON = "json"


def run_session(settings: Settings, output: Output) -> int:
    """Run a session to its end and show it; returns the exit code.

    Raises:
        HarnessError: no session came about; nothing was spent.
    """

    async def run() -> int:
        front = _Front(settings, output)  # made inside the event loop, where its cancel scope belongs
        code = await front.run()
        front.keep(code)
        return code

    return anyio.run(run)


def say(message: str) -> None:
    """One line for the person, on stderr; stdout belongs to the session's events."""
    try:
        sys.stderr.write(one_line(message) + "\n")
        sys.stderr.flush()
    except OSError:
        pass  # nobody listens any more; the trace has it all


def watch_progress(tasks: TaskGroup) -> None:
    """What takes over a second is shown on stderr, as long as the tasks run that are started from here on."""
    terminal = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
    lines = ProgressLines(write_to_stderr, terminal=terminal, width=max(shutil.get_terminal_size((80, 24)).columns, 40))
    watcher.set(lines)
    tasks.start_soon(lines.run)


class _Front:
    def __init__(self, settings: Settings, output: Output) -> None:
        self._settings = settings
        self._output = output
        self._session: Session | None = None
        self._preparing = anyio.CancelScope()
        self._pressed_at = float("-inf")
        self._heard: list[signal.Signals] = []

    async def run(self) -> int:
        failure: HarnessError | None = None
        code = EXIT_CODES["cancelled"]
        async with anyio.create_task_group() as tasks:
            await tasks.start(self._watch_signals)
            watch_progress(tasks)
            try:
                with self._preparing:
                    self._session = await build.prepare(self._settings, say)
                if self._session is None:
                    say("cancelled before a session was made; nothing was spent")
                else:
                    code = await self._show(self._session)
            except HarnessError as error:
                failure = error
            tasks.cancel_scope.cancel()
        if failure is not None:
            raise failure
        return code

    def keep(self, code: int) -> None:
        """From now on a signal only makes the process leave sooner: the session has ended, and its exit code stands."""
        for number in self._heard:
            signal.signal(number, lambda _number, _frame: os._exit(code))

    async def _show(self, session: Session) -> int:
        stream = Stream(sys.stdout.buffer)
        trace = session.trace
        how = "broke off by an error of agent-harness itself"
        code = EXIT_CODES["failed"]
        told = False
        try:
            async with anyio.create_task_group() as tasks:
                if self._output is Output.JSON:
                    say(f"session {session.id}, trace {trace.path}")
                    tasks.start_soon(pump, trace.subscribe(), jsonl.render, stream)
                else:
                    console = _console()
                    stream.write(console.opening(session.id, str(trace.path)))
                    tasks.start_soon(pump, trace.subscribe(), console.render, stream)
                ended = await session.run()
                code = ended.exit_code
                how = f"ended: {ended.outcome} ({ended.reason})"
                trace.close()  # its readers end when they have shown what is left
            told = self._output is Output.PLAIN and not stream.gone
        finally:
            if not told:
                trace.close()
                say(f"session {session.id} {how}; trace {trace.path}")
        return code

    async def _watch_signals(self, *, task_status: TaskStatus[None]) -> None:
        # A signal that is ignored from outside (nohup, a job in the background) stays ignored.
        self._heard = [
            number for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) is not signal.SIG_IGN
        ]
        with anyio.open_signal_receiver(*self._heard) as signals:
            task_status.started()
            async for _ in signals:
                self._stop()

    def _stop(self) -> None:
        now = anyio.current_time()
        if now - self._pressed_at < SECOND_PRESS_S:
            self._quit()
        self._pressed_at = now
        if self._session is None:
            self._preparing.cancel()
        elif self._session.ended is not None:
            say("the session has ended already; once more within 2 s quits without showing the rest")
        else:
            say("stopping; once more within 2 s quits without waiting")
            self._session.cancel()

    def _quit(self) -> None:
        """Leave now, with the end on record."""
        code = EXIT_CODES["cancelled"]
        if (session := self._session) is not None:
            over = session.ended is not None
            try:
                code = session.end_now().exit_code
            except HarnessError as error:  # the disk is full, say; every event before is in the file
                say(str(error))
            how = "had ended" if over else "cancelled without waiting for its end"
            say(f"session {session.id} {how}; trace {session.trace.path}")
        os._exit(code)


def _console() -> Console:
    terminal = sys.stdout.isatty()
    colours = terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return Console(width=max(shutil.get_terminal_size((120, 24)).columns if terminal else 160, 40), colours=colours)
