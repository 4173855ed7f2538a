"""A stand-in for GitHub in one process on loopback: smart HTTP of git's own `http-backend`, and REST computed from the same
repositories. It refuses what GitHub refuses, in its words.

As on an Enterprise Server, REST is below `/api/v3` and repositories are at `/OWNER/NAME.git`. Not modelled: the App's own calls
(its tokens are made by `token`), GraphQL, forks, merging by the API, labels, reviewers, comments, checks, rulesets, push
protection, size limits, rate limits, single sign-on, webhooks, TLS. A push with one refused branch is refused as a whole.
"""

from __future__ import annotations

import base64
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from threading import RLock, Thread
from types import TracebackType
from typing import cast
from urllib.parse import urlsplit

from tests.fakes import github_forge_git as over_git
from tests.fakes import github_forge_rest as rest
from tests.fakes.github_forge_git import Answer
from tests.fakes.github_forge_state import PUBLISHER, IssueRecord, Level, Repo, Shape, Token, new_token_value

Fault = Callable[[Callable[[], Answer]], Answer | None]
"""Stands in the place of a request's work, which it may do or not; None closes the connection without a word."""


def answers(status: int, body: str, content_type: str = "application/json", headers: Mapping[str, str] | None = None) -> Fault:
    """That answer, and nothing done."""
    return lambda _: Answer(status, body.encode(), {"Content-Type": content_type, **(headers or {})})


def server_error() -> Fault:
    return answers(500, '{"message":"Server Error"}')


def html_bad_gateway() -> Fault:
    return answers(502, "<html><body><h1>502 Bad Gateway</h1></body></html>", "text/html")


def loses_the_answer(work: Callable[[], Answer]) -> None:
    """The work is done, and the connection closed without a word of it."""
    work()


@dataclass(frozen=True)
class Seen:
    """One request that was answered, without its credentials. `status` 0: the connection was closed without an answer."""

    method: str
    path: str
    status: int
    authenticated: bool


@dataclass
class _Planned:
    method: str
    path: re.Pattern[str]
    fault: Fault
    times: int


class GitHubStandIn:
    """A context manager; `url` is the root of the web pages and of git, `api_url` that of REST.

    Args:
        folder: where its repositories are made.

    Attributes:
        seen: every request, in the order of the answers.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._repos: dict[str, Repo] = {}
        self._renamed: dict[str, Repo] = {}
        self._tokens: dict[str, Token] = {}
        self._planned: list[_Planned] = []
        self._ids = count(1001)
        self._lock = RLock()
        self.seen: list[Seen] = []
        self._server = _Server(self)
        self._thread = Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)

    def __enter__(self) -> GitHubStandIn:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def port(self) -> int:
        return self._server.server_address[1]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def api_url(self) -> str:
        return f"{self.url}/api/v3"

    # What a test sets up

    def add_repository(self, full_name: str, source: Path | None = None, *, private: bool = True) -> Repo:
        """A repository with the branches of `source` (a git repository), empty without one."""
        number = next(self._ids)
        bare = self._folder / f"{number}.git"
        start = (
            ["init", "-q", "--bare", "-b", "main"] if source is None else ["clone", "-q", "--bare", "--no-hardlinks", str(source)]
        )
        subprocess.run(["git", *start, str(bare)], check=True, capture_output=True)
        repo = Repo(number, full_name, bare, private)
        self._repos[full_name.lower()] = repo
        return repo

    def rename(self, repo: Repo, full_name: str) -> None:
        """The repository has a new name; its old one redirects."""
        with self._lock:
            self._renamed[repo.full_name.lower()] = self._repos.pop(repo.full_name.lower())
            repo.full_name = full_name
            self._repos[full_name.lower()] = repo

    def add_issue(self, repo: Repo, title: str, body: str | None, author: str | None = "reporter") -> IssueRecord:
        issue = IssueRecord(next(repo.numbers), title, body, author)
        repo.issues[issue.number] = issue
        return issue

    def token(
        self,
        shape: Shape = "installation",
        permissions: Mapping[str, Level] = PUBLISHER,
        repositories: frozenset[int] | None = None,
        expires_at: float | None = None,
        login: str = "agent[bot]",
    ) -> str:
        """A new credential; the text is all that a client knows of it."""
        made = Token(new_token_value(shape), login, shape, permissions, repositories, expires_at)
        self._tokens[made.value] = made
        return made.value

    def revoke(self, token: str) -> None:
        self._tokens[token].revoked = True

    def plan(self, method: str, path: str, fault: Fault, times: int = 1) -> None:
        """The next `times` requests with that method, and a path and query in which `path` is found, meet the fault."""
        self._planned.append(_Planned(method, re.compile(path), fault, times))

    def asked(self, method: str, path: str) -> list[Seen]:
        """The requests so far with that method, and a path in which `path` is found."""
        return [each for each in self.seen if each.method == method and re.search(path, each.path)]

    # What a client meets

    def handle(self, method: str, target: str, headers: dict[str, str], body: bytes) -> Answer | None:
        """The answer to one request; None when there is none."""

        def work() -> Answer:
            return self._work(method, target, headers, body)

        fault = self._fault(method, target)
        found = fault(work) if fault is not None else work()
        status = 0 if found is None else found.status
        self.seen.append(Seen(method, target, status, "authorization" in headers))
        return found

    def _fault(self, method: str, target: str) -> Fault | None:
        with self._lock:
            for planned in self._planned:
                if planned.times > 0 and planned.method == method and planned.path.search(target):
                    planned.times -= 1
                    return planned.fault
        return None

    def _work(self, method: str, target: str, headers: dict[str, str], body: bytes) -> Answer:
        parts = urlsplit(target)
        if parts.path.startswith("/api/v3/"):
            try:
                with self._lock:
                    return self._rest(method, parts.path.removeprefix("/api/v3"), parts.query, headers, body)
            except rest.Refused as refused:
                return refused.answer
        found = over_git.PATH.fullmatch(parts.path)
        if found is None:
            return over_git.plain(404, "Not Found")
        return self._git(method, found["full"], found["rest"], parts.query, headers, body)

    def _rest(self, method: str, path: str, query: str, headers: dict[str, str], body: bytes) -> Answer:
        if "user-agent" not in headers:
            raise rest.Refused(
                403, "Request forbidden by administrative rules. Please make sure your request has a User-Agent header"
            )
        token = self._rest_token(headers.get("authorization"))
        request = rest.Request(method, path, query, body, token, self.url)
        if path == "/user":
            return self._user(request)
        found = re.fullmatch(r"/repos/([^/]+/[^/]+)(/.*)?", path)
        by_id = re.fullmatch(r"/repositories/(\d+)(/.*)?", path)
        if found is not None:
            repo, below = self._repos.get(found[1].lower()), found[2] or ""
            old = self._renamed.get(found[1].lower())
            if repo is None and old is not None and rest.visible(request, old):
                location = f"{self.api_url}/repositories/{old.id}{below}" + (f"?{query}" if query else "")
                status = 301 if method in ("GET", "HEAD") else 307
                return rest.answer(status, {"message": "Moved Permanently", "url": location}, {"Location": location})
        elif by_id is not None:
            repo, below = next((each for each in self._repos.values() if each.id == int(by_id[1])), None), by_id[2] or ""
        else:
            raise rest.Refused(404, "Not Found")
        if repo is None or not rest.visible(request, repo):
            raise rest.Refused(404, "Not Found")
        return rest.route(request, repo, below)

    def _user(self, request: rest.Request) -> Answer:
        if request.token is None:
            raise rest.Refused(401, "Requires authentication")
        if request.token.kind.startswith("installation"):
            raise rest.Refused(403, request.token.refusal)
        return rest.answer(200, rest.user_json(request, request.token.login))

    def _rest_token(self, header: str | None) -> Token | None:
        if header is None:
            return None
        scheme, _, value = header.partition(" ")
        token = self._tokens.get(value) if scheme.lower() in ("token", "bearer") else None
        if token is None or not token.valid:
            raise rest.Refused(401, "Bad credentials")
        return token

    def _git(self, method: str, full: str, below: str, query: str, headers: dict[str, str], body: bytes) -> Answer:
        write = over_git.is_write(below, query)
        header = headers.get("authorization")
        token = self._git_token(header)
        if header is not None and token is None:
            said = "Invalid username or token. Password authentication is not supported for Git operations."
            return over_git.unauthorized(said)
        repo = self._repos.get(full.lower())
        old = self._renamed.get(full.lower())
        if repo is None and old is not None:
            location = f"{self.url}/{old.full_name}.git/{below}" + (f"?{query}" if query else "")
            return Answer(301, b"", {"Location": location})
        if token is None and (write or repo is None or repo.private):
            return over_git.unauthorized("No anonymous write access.")
        if repo is None or (repo.private and token is not None and not token.covers(repo)):
            return over_git.plain(404, "Repository not found.")
        if token is not None and (write or repo.private):
            if not token.covers(repo) or not token.may("contents", "write" if write else "read"):
                return over_git.plain(403, f"Permission to {repo.full_name}.git denied to {token.login}.")
            if write and repo.archived:
                return over_git.plain(403, "This repository was archived so it is read-only.")
        login = "nobody" if token is None else token.login
        if below != "git-receive-pack":
            return over_git.serve(repo, method, below, query, headers, body, login)
        with self._lock:
            return over_git.serve(repo, method, below, query, headers, body, login)

    def _git_token(self, header: str | None) -> Token | None:
        """The valid token that the header's password is; GitHub does not look at the user's name."""
        scheme, _, pair = (header or "").partition(" ")
        if scheme.lower() != "basic":
            return None
        try:
            password = base64.b64decode(pair, validate=True).decode().partition(":")[2]
        except ValueError:
            return None
        token = self._tokens.get(password)
        return token if token is not None and token.valid else None


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, forge: GitHubStandIn) -> None:
        self.forge = forge
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
        found = cast("_Server", self.server).forge.handle(self.command, self.path, headers, self._body())
        if found is None:
            self.close_connection = True
            return
        self.send_response(found.status)
        for name, value in found.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(found.body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(found.body)
