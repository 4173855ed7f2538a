"""The HTTP server of the stand-in for GitHub: requests in, answers out, connections closed where an answer says so."""

from __future__ import annotations

import sys
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import cast

from tests.fakes.github_forge_git import Answer

Handle = Callable[[str, str, dict[str, str], bytes], Answer | None]


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, handle: Handle) -> None:
        self.handle_request_of = handle
        super().__init__(("127.0.0.1", 0), _Handler)

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that hung up is no error of the server's."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)  # pyright: ignore[reportArgumentType]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: object) -> None:
        del format, args

    def do_GET(self) -> None:
        self._serve()

    def do_HEAD(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def do_PATCH(self) -> None:
        self._serve()

    def do_DELETE(self) -> None:
        self._serve()

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def _serve(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        found = cast("Server", self.server).handle_request_of(self.command, self.path, headers, self._body())
        if found is None:
            self.close_connection = True
            return
        self.send_response(found.status)
        for name, value in found.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(found.body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(found.body[: found.cut_after])
        if found.cut_after is not None:
            self.close_connection = True
