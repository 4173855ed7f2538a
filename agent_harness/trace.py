"""The one record of a session: every event numbered, redacted, chained and on disk before anyone sees it.

Writing is one `write(2)` of a whole line on an append-only descriptor, so SIGKILL loses nothing that was emitted; `sync()` is
called before an effect outside the machine and at the end. Everybody else reads: `subscribe` gives records from any point on,
from memory while they are recent and from the file when a reader fell behind, so that a slow reader slows nobody.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import anyio

from agent_harness.errors import HarnessError
from agent_harness.events import Event, JsonValue
from agent_harness.redact import Redactor, StreamRedactor

Record = dict[str, JsonValue]
Clock = Callable[[], datetime]

RECENT = 512  # records kept in memory for readers; older ones are read from the file
COMMON_FIELDS = ("seq", "time", "session", "type", "prev")


@dataclass(frozen=True, slots=True)
class Delta:
    """Streamed text, redacted: shown while it arrives, never recorded."""

    text: str


class Trace:
    """Writes one session's events. Not thread-safe: it belongs to the event loop's thread.

    Raises `HarnessError` when there is a file already and it was changed after it was written.

    Args:
        path: the JSONL file; made with mode 0600 when missing, appended to otherwise (a torn last line is cut off first).
        session: the session's id.
        redactor: stands in front of everything that is recorded or streamed.
        clock: gives the UTC time of each event.

    Raises:
        HarnessError: another process works on this session.
    """

    def __init__(self, path: Path, session: str, redactor: Redactor, clock: Clock = lambda: datetime.now(UTC)) -> None:
        self.path = path
        self.session = session
        self.redactor = redactor
        self._clock = clock
        self._file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._lock()
        self._recent: deque[Record] = deque(maxlen=RECENT)
        self._offsets: list[int] = []
        self._prev: str | None = None
        self._end = 0
        self._readers: set[Subscription] = set()
        self._stream: StreamRedactor | None = None
        self.closed = False
        self._load()

    def _lock(self) -> None:
        """Two writers would break the chain; the lock goes with the process, however that ends."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise HarnessError(f"session {self.session} is being worked on by another process; wait for it, or end it") from error

    def _load(self) -> None:
        """Index what is there already and cut off a last line that a crash left unfinished."""
        if os.fstat(self._file).st_size == 0:
            return
        with self.path.open("rb") as lines:
            for line in lines:
                if not line.endswith(b"\n"):
                    os.ftruncate(self._file, self._end)
                    break
                self._index(line, _checked(self.path, self.last_seq + 1, line, self._prev))

    def _index(self, line: bytes, record: Record) -> None:
        self._offsets.append(self._end)
        self._end += len(line)
        self._prev = hashlib.sha256(line[:-1]).hexdigest()
        self._recent.append(record)

    @property
    def last_seq(self) -> int:
        """Number of the newest event; 0 when there is none."""
        return len(self._offsets)

    def emit(self, event: Event) -> Record:
        """Record an event and wake the readers; returns the record as written, so redacted.

        Raises:
            HarnessError: the trace is closed, or the disk refused the line: without a record nothing may go on.
        """
        if self.closed:
            raise HarnessError(f"the trace of session {self.session} is closed; {event.type!r} came too late")
        record: Record = {
            "seq": self.last_seq + 1,
            "time": self._clock().isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "session": self.session,
            "type": event.type,
            "prev": self._prev,
        }
        for name, value in event.payload().items():
            record[name] = self.redactor.value(value)
        line = (json.dumps(record, ensure_ascii=False) + "\n").encode("utf-8", "backslashreplace")
        self._write(line)
        self._index(line, record)
        self._wake()
        return record

    def _write(self, line: bytes) -> None:
        try:
            written = os.write(self._file, line)
            while written < len(line):
                written += os.write(self._file, line[written:])
        except OSError as error:
            os.ftruncate(self._file, self._end)
            raise HarnessError(
                f"the trace {str(self.path)!r} cannot be written: {error.strerror}; free some disk space, then resume",
                reason="trace",
            ) from error

    def sync(self) -> None:
        """Force what was recorded onto the disk; before an effect outside the machine, and at the end."""
        os.fsync(self._file)

    def delta(self, text: str) -> None:
        """Show streamed text to the readers, redacted; held back while it could be the start of a secret."""
        if self._stream is None:
            self._stream = self.redactor.stream()
        self._show(self._stream.feed(text))

    def end_delta(self) -> None:
        """The streamed text is complete: show what was held back."""
        if self._stream is not None:
            self._show(self._stream.finish())
            self._stream = None

    def _show(self, text: str) -> None:
        if text:
            for reader in self._readers:
                reader.show(Delta(text))

    def _wake(self) -> None:
        for reader in self._readers:
            reader.wake()

    def subscribe(self, after: int = 0) -> Subscription:
        """Records with `seq` greater than `after`, then new ones as they come, until the trace is closed.

        Deltas are mixed in for a reader that keeps up; one that lags misses deltas, never records.
        """
        reader = Subscription(self, after)
        self._readers.add(reader)
        return reader

    def forget(self, reader: Subscription) -> None:
        """The reader will not read on."""
        self._readers.discard(reader)

    def get(self, seq: int) -> Record:
        """The record of that number, from memory or from the file."""
        first = self.last_seq - len(self._recent) + 1
        if seq >= first:
            return self._recent[seq - first]
        start = self._offsets[seq - 1]
        stop = self._offsets[seq] if seq < self.last_seq else self._end
        return cast("Record", json.loads(os.pread(self._file, stop - start, start)))

    def close(self) -> None:
        """Sync and close; readers end after the last record. Closing twice does nothing."""
        if self.closed:
            return
        self.end_delta()
        self.sync()
        self.closed = True
        fcntl.flock(self._file, fcntl.LOCK_UN)
        self._wake()

    def __del__(self) -> None:
        if hasattr(self, "_file"):
            os.close(self._file)


class Subscription(AsyncIterator["Record | Delta"]):
    """One reader's place in the trace. Holds a number and at most `RECENT` deltas, nothing that grows."""

    def __init__(self, trace: Trace, after: int) -> None:
        self._trace = trace
        self._next = after + 1
        self._deltas: deque[tuple[int, Delta]] = deque(maxlen=RECENT)
        self._news = anyio.Event()

    def wake(self) -> None:
        """Something new can be read."""
        self._news.set()

    def show(self, delta: Delta) -> None:
        """Streamed text for this reader."""
        self._deltas.append((self._trace.last_seq, delta))
        self._news.set()

    def __aiter__(self) -> Subscription:
        return self

    async def __anext__(self) -> Record | Delta:
        while True:
            # A delta is shown after the records that were there before it, and before the record of the text that it streams.
            if self._deltas and self._deltas[0][0] < self._next:
                return self._deltas.popleft()[1]
            if self._next <= self._trace.last_seq:
                self._next += 1
                return self._trace.get(self._next - 1)
            if self._trace.closed:
                self._trace.forget(self)
                raise StopAsyncIteration
            self._news = anyio.Event()
            await self._news.wait()


def read(path: Path) -> Iterator[Record]:
    """The records of a trace file, without writing to it; a torn last line is left out.

    Raises:
        HarnessError: a line is no JSON object, or the chain of `prev` is broken; names the line.
    """
    prev: str | None = None
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if not line.endswith(b"\n"):
                return
            record = _checked(path, number, line, prev)
            prev = hashlib.sha256(line[:-1]).hexdigest()
            yield record


def _checked(path: Path, number: int, line: bytes, prev: str | None) -> Record:
    """The record of a line, when it is the next one of its chain."""
    try:
        record: object = json.loads(line)
    except ValueError:
        record = None
    if isinstance(record, dict):
        found = cast("Record", record)
        if found.get("prev") == prev and found.get("seq") == number:
            return found
    raise HarnessError(f"{str(path)!r} line {number} was changed after it was written, or is damaged", reason="trace")
