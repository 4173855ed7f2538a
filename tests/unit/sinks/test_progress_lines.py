"""Nothing under a second; on a terminal one line that is written anew, elsewhere lines at growing intervals."""

from __future__ import annotations

import os
import sys

import anyio
import pytest

from agent_harness.progress import Step
from agent_harness.sinks.progress_lines import ERASE, TICK_S, ProgressLines, write_to_stderr


class Screen:
    """A clock that the test turns, and what was written."""

    def __init__(self, *, terminal: bool, width: int = 80) -> None:
        self.now = 100.0
        self.written: list[str] = []
        self.lines = ProgressLines(self.written.append, terminal=terminal, width=width, clock=lambda: self.now)

    def pass_s(self, seconds: float) -> None:
        for _ in range(int(seconds / TICK_S)):
            self.now += TICK_S
            self.lines.tick()

    @property
    def text(self) -> str:
        return "".join(self.written)


@pytest.mark.parametrize("terminal", [True, False])
def test_what_takes_under_a_second_is_never_shown(terminal: bool) -> None:
    screen = Screen(terminal=terminal)
    for _ in range(3):
        step = Step("cloning")
        screen.lines.begin(step)
        screen.pass_s(0.5)
        screen.lines.end(step, done=True)
    screen.pass_s(5)
    assert screen.text == ""


def test_on_a_terminal_the_same_line_is_written_anew_and_gives_way_to_the_last_word() -> None:
    screen = Screen(terminal=True)
    step = Step("cloning shop.git")
    screen.lines.begin(step)
    screen.pass_s(1)
    assert screen.text == f"{ERASE}cloning shop.git (1 s)"
    step.detail = "receiving objects 45%"
    screen.pass_s(1)
    assert screen.written[-1] == f"{ERASE}cloning shop.git, receiving objects 45% (2 s)"
    assert "\n" not in screen.text
    screen.lines.end(step, done=True)
    assert screen.written[-2:] == [ERASE, "cloning shop.git: done, 2 s\n"]
    screen.pass_s(5)
    assert screen.written[-1].endswith("done, 2 s\n")


def test_on_a_terminal_nothing_is_written_twice_and_a_line_never_wraps() -> None:
    screen = Screen(terminal=True, width=20)
    screen.lines.begin(Step("cloning a repository with a long name"))
    screen.pass_s(1)
    screen.lines.tick()
    assert screen.written == [f"{ERASE}cloning a reposi..."]


def test_what_fails_is_wiped_away_and_leaves_the_word_to_the_error() -> None:
    screen = Screen(terminal=True)
    step = Step("cloning")
    screen.lines.begin(step)
    screen.pass_s(2)
    screen.lines.end(step, done=False)
    assert screen.written[-1] == ERASE


def test_on_a_pipe_lines_come_at_growing_intervals() -> None:
    screen = Screen(terminal=False)
    step = Step("pushing agent/x")
    screen.lines.begin(step)
    screen.pass_s(200)
    assert screen.text.splitlines() == [
        *("pushing agent/x (1 s)", "pushing agent/x (5 s)", "pushing agent/x (15 s)", "pushing agent/x (60 s)"),
        *("pushing agent/x (2 min 00 s)", "pushing agent/x (3 min 00 s)"),
    ]
    screen.lines.end(step, done=True)
    assert screen.text.splitlines()[-1] == "pushing agent/x: done, 3 min 20 s"


def test_what_is_over_before_a_session_is_made_is_shown_where_it_can_be_taken_back() -> None:
    shown: list[bool] = []
    for terminal in (True, False):
        screen = Screen(terminal=terminal)
        step = Step("asking the remote", fleeting=True)
        screen.lines.begin(step)
        screen.pass_s(3)
        shown.append("asking" in screen.text)
        screen.lines.end(step, done=True)
        assert "\n" not in screen.text
    assert shown == [True, False]


def test_of_steps_side_by_side_the_latest_old_one_is_shown() -> None:
    screen = Screen(terminal=True)
    first, second = Step("first"), Step("second")
    screen.lines.begin(first)
    screen.pass_s(2)
    screen.lines.begin(second)
    screen.pass_s(0.5)
    assert screen.written[-1].startswith(f"{ERASE}first")
    screen.pass_s(1)
    assert screen.written[-1].startswith(f"{ERASE}second")
    screen.lines.end(second, done=True)
    screen.pass_s(0.5)
    assert screen.written[-1].startswith(f"{ERASE}first")


def test_control_characters_of_a_remote_never_reach_the_terminal() -> None:
    for terminal in (True, False):
        screen = Screen(terminal=terminal)
        screen.lines.begin(Step("cloning \x1b[31m\nred"))
        screen.pass_s(1)
        assert "\x1b[31m" not in screen.text
        assert "\nred" not in screen.text


@pytest.mark.anyio
async def test_it_ticks_while_something_is_done_and_waits_for_news_otherwise() -> None:
    screen = Screen(terminal=False)
    ticks, turn = 0, anyio.Event()
    step = Step("cloning")

    async def wait(seconds: float) -> None:
        nonlocal ticks
        ticks += 1
        screen.now += seconds
        if ticks == 4:
            screen.lines.end(step, done=True)
            turn.set()
        await anyio.lowlevel.checkpoint()

    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(screen.lines.run, wait)
            await anyio.wait_all_tasks_blocked()
            assert ticks == 0
            screen.lines.begin(step)
            await turn.wait()
            await anyio.wait_all_tasks_blocked()
            assert ticks == 4
            tasks.cancel_scope.cancel()
    assert screen.text.splitlines() == ["cloning (1 s)", "cloning: done, 2 s"]


def fill(pipe: int) -> None:
    try:
        while True:
            os.write(pipe, b"x" * 65_536)
    except BlockingIOError:
        return


def test_a_reader_that_is_stuck_or_gone_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    read_end, write_end = os.pipe()
    with os.fdopen(write_end, "w", encoding="utf-8") as full:
        monkeypatch.setattr(sys, "stderr", full)
        os.set_blocking(write_end, False)
        fill(write_end)
        os.set_blocking(write_end, True)
        write_to_stderr("progress\n")
        os.close(read_end)
        write_to_stderr("progress\n")
        monkeypatch.undo()
