"""Ends what a hook left running outside of its process group: a process that made a session of its own is still the hook's.

A process is the hook's when it is in the hook's session, was started below one that is, or carries the mark that the hook's
environment was given. Only processes that are newer than the hook are looked at, so that a call costs next to nothing on a
machine with thousands of them. One that left the session, wiped its environment and lost its parent cannot be told.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

MARK = "AGENT_HOOK_RUN"
ROUNDS = 50  # each ends all that the one before found, so a chain of starts is outrun
SECOND_LOOKS = 2
PAUSE_S = 0.0005  # a process between two programs shows no environment for some microseconds


def newer_than(leader: int) -> bool:
    """Whether any process was started after the hook, by whomever: else there is nothing to look for."""
    return _last_pid() != leader


def end_descendants(leader: int, mark: str) -> None:
    """Kill every process of that hook. Blocks for a millisecond, or longer when there are many.

    Args:
        leader: the hook's own process id, which was its session's too.
        mark: the value of `MARK` in its environment.
    """
    wanted = f"{MARK}={mark}".encode()
    second_looks = SECOND_LOOKS
    for _ in range(ROUNDS):
        owned, unsure = _look(leader, wanted)
        for pid in owned:
            _kill(pid, leader, wanted, owned)
        if owned:
            continue
        if not unsure or not second_looks:
            return
        second_looks -= 1
        time.sleep(PAUSE_S)


def _look(leader: int, wanted: bytes) -> tuple[set[int], bool]:
    """The hook's living processes, and whether one showed nothing yet that could tell."""
    found = {pid: about for pid in _candidates(leader) if (about := _about(pid)) is not None}
    owned: set[int] = set()
    unsure = False
    for pid, (_, session) in found.items():
        environment = b"" if session == leader else _environment(pid)
        if session == leader or wanted in environment.split(b"\0"):
            owned.add(pid)
        elif not environment and _is_ours(pid):
            unsure = True
    while more := {pid for pid, (parent, _) in found.items() if parent in owned} - owned:
        owned |= more
    return owned, unsure


def _candidates(leader: int) -> list[int]:
    """Ids are given out in order and begin anew at their end."""
    last = _last_pid()
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208 - ten times as fast
    if last < leader:
        return [pid for pid in pids if pid > leader or pid <= last]
    return [pid for pid in pids if leader < pid <= last]


def _kill(pid: int, leader: int, wanted: bytes, owned: set[int]) -> None:
    """Kill it if it still is what was found: its id may have been given to another one meanwhile."""
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:
        return
    try:
        about = _about(pid)
        if about is not None and (about[1] == leader or about[0] in owned or wanted in _environment(pid).split(b"\0")):
            with suppress(OSError):
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
    finally:
        os.close(descriptor)


def _last_pid() -> int:
    """The newest process id of this machine, or of the container."""
    return int(Path("/proc/loadavg").read_text("ascii").split()[-1])


def _about(pid: int) -> tuple[int, int] | None:
    """Parent and session of a living process."""
    fields = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    return (int(fields[1]), int(fields[3])) if fields and fields[0] not in (b"Z", b"X") else None


def _environment(pid: int) -> bytes:
    return _read(f"/proc/{pid}/environ")


def _is_ours(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}").stat().st_uid == os.geteuid()
    except OSError:
        return False


def _read(path: str) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        pieces: list[bytes] = []
        while piece := os.read(descriptor, 1 << 17):
            pieces.append(piece)
        return b"".join(pieces)
    except OSError:
        return b""
    finally:
        os.close(descriptor)
