"""A small HTTP/1.1 server on 127.0.0.1: one thread a connection, kept alive, exact about when bytes come and go."""

from __future__ import annotations

import http.client
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Lock, Thread

from agent_harness.demo.script import Gate

GATE_S = 30  # a gate that nobody opens ends the answer rather than hanging for ever
MAX_HEAD_BYTES = 64 << 10


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """One request as it came. `arrived` is the monotonic time of its first byte; header names are in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    arrived: float


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """What to send back.

    Attributes:
        ends: the connection is closed after the body, which has no length of its own.
        gate: waited for after so many bytes of the body; after none, before the status line.
        dribble: one byte a packet.
        sent: called with whether all of it was sent, and when its last byte was handed over (monotonic).
    """

    status: int
    headers: Mapping[str, str]
    body: bytes
    ends: bool = False
    gate: Gate | None = None
    dribble: bool = False
    sent: Callable[[bool, float], object] = field(default=lambda _all, _at: None)


Handler = Callable[[HttpRequest], HttpAnswer]


class Loopback:
    """Listens from the start; `close` ends every connection and waits for its threads.

    Args:
        handler: answers a request; called in the connection's thread.
        port: 0 = any free one.
    """

    def __init__(self, handler: Handler, port: int = 0) -> None:
        self._handler = handler
        self._listener = socket.create_server(("127.0.0.1", port), backlog=256)
        self.port: int = self._listener.getsockname()[1]
        self._lock = Lock()
        self._open: dict[socket.socket, Thread] = {}
        self._closing = False
        self._acceptor = Thread(target=self._accept, name="loopback", daemon=True)
        self._acceptor.start()

    def close(self) -> None:
        """Stop listening, end every connection."""
        with self._lock:
            self._closing = True
            threads = list(self._open.values())
        self.drop_connections()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        self._acceptor.join()
        self._listener.close()
        for thread in threads:
            thread.join()

    def drop_connections(self) -> None:
        """End every connection, whatever it is doing."""
        with self._lock:
            for connection in self._open:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                if self._closing:
                    connection.close()
                    return
                thread = Thread(target=self._serve, args=(connection,), name="loopback-connection", daemon=True)
                self._open[connection] = thread
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            with connection, suppress(OSError):
                buffered = b""
                while True:
                    request, buffered = _read(connection, buffered)
                    if request is None or not self._answer(connection, self._handler(request)):
                        return
        finally:
            with self._lock:
                self._open.pop(connection, None)

    def _answer(self, connection: socket.socket, answer: HttpAnswer) -> bool:
        """Send it; returns whether the connection stays open."""
        try:
            for piece in _pieces(answer):
                connection.sendall(piece)
        except OSError:
            answer.sent(False, time.monotonic())
            return False
        answer.sent(True, time.monotonic())
        return not answer.ends


def _read(connection: socket.socket, buffered: bytes) -> tuple[HttpRequest | None, bytes]:
    """The next request and what came after it; None at the end of the connection."""
    if not buffered:
        buffered = connection.recv(64 << 10)
    arrived = time.monotonic()
    while b"\r\n\r\n" not in buffered and len(buffered) < MAX_HEAD_BYTES:
        more = connection.recv(64 << 10)
        if not more:
            return None, b""
        buffered += more
    head, _, rest = buffered.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    method, _, target = first.partition(" ")
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    length = int(headers.get("content-length") or 0)
    body = bytearray(rest)
    while len(body) < length:
        more = connection.recv(1 << 20)
        if not more:
            return None, b""
        body += more
    request = HttpRequest(method, target.rpartition(" ")[0], headers, bytes(body[:length]), arrived)
    return request, bytes(body[length:])


def _pieces(answer: HttpAnswer) -> Iterator[bytes]:
    """What is sent, in the pieces that it is sent in: all at once unless something is to happen between."""
    words = http.client.responses.get(answer.status, "Unknown")
    length = {"connection": "close"} if answer.ends else {"content-length": str(len(answer.body))}
    lines = [f"HTTP/1.1 {answer.status} {words}", *(f"{name}: {value}" for name, value in {**answer.headers, **length}.items())]
    head = "\r\n".join([*lines, "", ""]).encode("latin-1")
    cut = 0
    if answer.gate is not None:
        cut = min(answer.gate.after_bytes, len(answer.body))
        if cut:
            yield head + answer.body[:cut]
            head = b""
        answer.gate.reached.set()
        if not answer.gate.opened.wait(GATE_S):
            raise OSError("nobody opened the gate")
    if answer.dribble:
        yield head
        for byte in answer.body[cut:]:
            yield bytes([byte])
    else:
        yield head + answer.body[cut:]
