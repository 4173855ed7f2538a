"""A command's output as it arrives: cleaned, its head and tail kept, all of it (up to a cap) in a file. Memory stays bounded."""

from __future__ import annotations

import codecs
import re
from pathlib import Path

from agent_harness.tools.files import STORED

FILE_CAP = 10 << 20  # bytes of one output kept in the session folder
HEAD_CHARS = 64 * 1024  # kept in memory before a file is begun
TAIL_CHARS = 64 * 1024
LINE_CHARS = 64 * 1024  # of an unfinished line held back to see whether it will be redrawn
WINDOW = 3_500  # characters shown to the model, below the dispatcher's own limit so that the closing notes survive

ESCAPE = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor
    r"|\][^\x07\x1b\n]{0,4096}(?:\x07|\x1b\\)?"  # OSC: titles, links
    r"|[PX^_][^\x1b\n]{0,4096}(?:\x1b\\)?"
    r"|[ -/]{0,4}[0-~])?"
)
DROPPED = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
SPECIAL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
ERASED = re.compile(r"[^\n\b]\x08")


def clean_line(line: str) -> str:
    """One line as a terminal would leave it: the last redraw, no escapes, no control characters but the tab."""
    line = ESCAPE.sub("", line).rstrip("\r")
    line = line.rpartition("\r")[2]
    if "\b" in line:
        line = ERASED.sub("", line)
    return DROPPED.sub("", line)


class Cleaner:
    """Cleans text that arrives in pieces; holds back an unfinished line, which may still be redrawn."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""

    def feed(self, data: bytes) -> str:
        """The next piece; returns what is settled."""
        return self._settle(self._decoder.decode(data))

    def finish(self) -> str:
        """The rest, cleaned."""
        text = self._settle(self._decoder.decode(b"", final=True))
        held, self._held = self._held, ""
        return text + clean_line(held)

    def _settle(self, text: str) -> str:
        done, _, last = (self._held + text).rpartition("\n")
        settled = ""
        if len(done) + len(last) < len(self._held) + len(text):  # a line end was there
            settled = f"{done}\n" if SPECIAL.search(done) is None else "".join(f"{clean_line(x)}\n" for x in done.split("\n"))
        if len(last) > LINE_CHARS:
            at = last.rfind("\r", 0, len(last) - 1)
            if at >= 0:
                last = last[at:]
            else:
                settled, last = settled + clean_line(last), ""
        self._held = last
        return settled


class Spool:
    """Takes a command's output. Call `feed` with each piece, `finish` once; then `render`.

    Args:
        file: where the whole output goes when it is longer than what is shown; not made before that.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._cleaner = Cleaner()
        self._head = ""
        self._tail = ""
        self._chars = 0
        self._stored = 0
        self.stored: Path | None = None

    def feed(self, data: bytes) -> None:
        """Take the next piece of output."""
        self._take(self._cleaner.feed(data))

    def finish(self) -> None:
        """The output is complete; keep all of it in the file when not all of it will be shown."""
        self._take(self._cleaner.finish())
        if self.stored is None and self._chars > WINDOW:
            self._store(self._head)

    def _take(self, text: str) -> None:
        if not text:
            return
        self._chars += len(text)
        if self.stored is None and len(self._head) + len(text) <= HEAD_CHARS:
            self._head += text
            return
        if self.stored is None:
            self._store(self._head)
        self._store(text)
        self._tail = (self._tail + text[-TAIL_CHARS:])[-TAIL_CHARS:]

    def _store(self, text: str) -> None:
        data = text.encode("utf-8", "replace")[: FILE_CAP - self._stored]
        self.stored = self._file
        if data:
            append(self._file, data)
            self._stored += len(data)

    @property
    def text_seen(self) -> str:
        """The head and the tail that are kept, for looking through."""
        return self._head + self._tail

    def render(self, call_id: str) -> str:
        """What the model reads: all of it, or head and tail at line ends with what is left out and where it is kept."""
        if self._chars <= WINDOW:
            return self._head
        kept = self._head + self._tail
        head, tail = kept[: WINDOW // 2], kept[-(WINDOW // 2) :]
        cut = head.rfind("\n") + 1
        head = head[:cut] if cut > len(head) // 2 else head
        cut = tail.find("\n") + 1
        tail = tail[cut:] if 0 < cut < len(tail) // 2 else tail
        left = self._chars - len(head) - len(tail)
        capped = f", of which the first {FILE_CAP >> 20} MB are kept" if self._stored >= FILE_CAP else ""
        joint = "" if head.endswith("\n") else "\n"
        how = f'read_file path="{STORED}{call_id}" pages through it'
        return f"{head}{joint}[... {left:,} characters left out{capped}; {how} ...]\n{tail}"


def append(file: Path, data: bytes) -> None:
    """Add to a file of the session folder, which only its owner can read."""
    if not file.exists():
        file.touch(mode=0o600)
    with file.open("ab") as stream:
        stream.write(data)


class JobLog:
    """The log of a background job: a file that keeps the newest output when it grows too long."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._cleaner = Cleaner()
        append(file, b"")

    def feed(self, data: bytes) -> None:
        """Take the next piece of output."""
        self._write(self._cleaner.feed(data))

    def finish(self, note: str) -> None:
        """The job has ended; `note` says how."""
        rest = self._cleaner.finish()
        self._write(f"{rest}\n{note}\n" if rest and not rest.endswith("\n") else f"{rest}{note}\n")

    def _write(self, text: str) -> None:
        if not text:
            return
        append(self._file, text.encode("utf-8", "replace"))
        if self._file.stat().st_size > FILE_CAP:
            with self._file.open("rb") as stream:
                stream.seek(-FILE_CAP // 2, 2)
                newest = stream.read()
            self._file.write_bytes(b"[older output dropped]\n" + newest.partition(b"\n")[2])


def tail_of(file: Path, chars: int = WINDOW) -> str:
    """The last whole lines of a file, at most so many characters, and whether there is more said."""
    size = file.stat().st_size
    with file.open("rb") as stream:
        stream.seek(max(0, size - chars))
        text = stream.read().decode("utf-8", "replace")
    if size <= chars:
        return text
    cut = text.find("\n") + 1
    return f'[the end of {size:,} bytes; read_file path="{STORED}{file.stem}" pages through all]\n{text[cut:]}'
