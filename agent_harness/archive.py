"""Sessions on disk: found by their id or the start of it, read without being changed."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from agent_harness.errors import ConfigError, HarnessError
from agent_harness.trace import Record, read

FIRST_SESSION = "`agent-harness run` makes one (that of a demo lies in the demo's own folder, which it names at its end)"
TAIL_BYTES = 64 << 10  # a last event that is longer is read with the whole trace


@dataclass(frozen=True, slots=True)
class StoredSession:
    """One session folder.

    Attributes:
        started: its `session_started` record.
        ended: its last `session_ended` record; None when it still runs, or was killed.
    """

    id: str
    folder: Path
    started: Record
    ended: Record | None

    @property
    def trace_path(self) -> Path:
        """Where its trace lies."""
        return self.folder / "trace.jsonl"

    def records(self) -> Iterator[Record]:
        """Its whole trace, checked.

        Raises:
            HarnessError: the trace was changed or is damaged.
        """
        return read(self.trace_path)

    def task(self, name: str) -> str:
        """A field of its task, as text; empty when it has none."""
        task = self.started.get("task")
        value = task.get(name) if isinstance(task, dict) else None
        return value if isinstance(value, str) else ""


def stored_sessions(home: Path) -> list[StoredSession]:
    """Every session that can be read, newest first; a damaged one does not hide the others."""
    found = (_load(path.parent) for path in (home / "sessions").glob("*/trace.jsonl"))
    return sorted((session for session in found if session is not None), key=lambda session: session.id, reverse=True)


def find_session(home: Path, wanted: str) -> StoredSession:
    """The one session whose id is, or begins with, `wanted`; `last` is the newest.

    Raises:
        ConfigError: none or several match; names some.
    """
    sessions = stored_sessions(home)
    if not sessions:
        raise ConfigError(f"there are no sessions in {str(home)!r} yet; {FIRST_SESSION}")
    if wanted == "last":
        return sessions[0]
    matching = [session for session in sessions if session.id.startswith(wanted)] if wanted else []
    exact = [session for session in matching if session.id == wanted]
    if exact or len(matching) == 1:
        return (exact or matching)[0]
    some = ", ".join(session.id for session in (matching or sessions)[:4])
    how = "is the start of several sessions" if matching else "is no session"
    raise ConfigError(f"{wanted!r} {how}; give more of one of: {some} (or 'last')")


def _load(folder: Path) -> StoredSession | None:
    path = folder / "trace.jsonl"
    try:
        with path.open("rb") as lines:
            first = _record(lines.readline())
            lines.seek(max(path.stat().st_size - TAIL_BYTES, 0))
            tail = lines.read().splitlines(keepends=True)
    except OSError:
        return None
    if first is None or first.get("type") != "session_started":
        return None
    ended = next(
        (record for record in map(_record, reversed(tail)) if record is not None and record["type"] == "session_ended"), None
    )
    return StoredSession(folder.name, folder, first, ended)


def _record(line: bytes) -> Record | None:
    if not line.endswith(b"\n"):
        return None
    try:
        record: object = json.loads(line)
    except ValueError:
        return None
    return cast("Record", record) if isinstance(record, dict) and "type" in record else None


def is_running(session: StoredSession) -> bool:
    """Whether a process still works on it: whoever does holds a lock on its trace."""
    try:
        descriptor = os.open(session.trace_path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise HarnessError(f"{str(session.trace_path)!r} cannot be read: {error.strerror}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
