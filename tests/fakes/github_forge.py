"""A stand-in for GitHub in one process on loopback: smart HTTP of git's own `http-backend`, and REST computed from the same
repositories. It refuses what GitHub refuses, in its words.

As on an Enterprise Server, REST is below `/api/v3` and repositories are at `/OWNER/NAME.git`. Not modelled: GraphQL, forks,
merging by the API, checks, real secret patterns, signatures (a ruleset refuses every push to its branches), limits by counting
(they are faults that a test plans), single sign-on, IP allow lists, webhooks, TLS. One refused ref refuses the whole push.
"""

from __future__ import annotations

import base64
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from threading import RLock, Thread
from types import TracebackType
from urllib.parse import urlsplit

from tests.fakes import github_forge_app as apps
from tests.fakes import github_forge_git as over_git
from tests.fakes import github_forge_rest as rest
from tests.fakes import github_forge_talk as talk
from tests.fakes.github_forge_faults import (
    Fault,
    answers,
    cuts_the_answer,
    drops_the_request,
    expired,
    fails_after_the_work,
    forbidden,
    html_bad_gateway,
    invalid,
    loses_the_answer,
    not_found,
    primary_limit,
    secondary_limit,
    server_error,
    waits_for,
)
from tests.fakes.github_forge_git import Answer
from tests.fakes.github_forge_http import Server
from tests.fakes.github_forge_state import PUBLISHER, Comment, IssueRecord, Level, Repo, Shape, Token, new_token_value

__all__ = [
    "Answer",
    "Fault",
    "GitHubStandIn",
    "answers",
    "cuts_the_answer",
    "drops_the_request",
    "expired",
    "fails_after_the_work",
    "forbidden",
    "html_bad_gateway",
    "invalid",
    "loses_the_answer",
    "not_found",
    "primary_limit",
    "secondary_limit",
    "server_error",
    "waits_for",
]


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
        self._apps: dict[int, apps.App] = {}
        self._planned: list[_Planned] = []
        self._ids = count(1001)
        self._lock = RLock()
        self.seen: list[Seen] = []
        self._server = Server(self.handle)
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

    def comment(self, issue: IssueRecord, body: str, author: str | None, association: str) -> None:
        """Somebody says something below an issue; `association` is GitHub's word for what they are to the repository."""
        issue.comments.append(Comment(body, author, association))

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
        self._keep(made)
        return made.value

    def add_app(
        self, owner: str, permissions: Mapping[str, Level] = PUBLISHER, repositories: frozenset[int] | None = None
    ) -> apps.App:
        """An App that is installed in that account."""
        app = apps.App(next(self._ids), "agent", apps.make_key())
        app.installations.append(apps.Installation(next(self._ids), owner, permissions, repositories))
        self._apps[app.id] = app
        return app

    def revoke(self, token: str) -> None:
        self._tokens[token].revoked = True

    def plan(self, method: str, path: str, fault: Fault, times: int = 1) -> None:
        """The next `times` requests with that method, and a path and query in which `path` is found, meet the fault."""
        self._planned.append(_Planned(method, re.compile(path), fault, times))

    def unplan(self) -> None:
        """No request meets a fault any more."""
        with self._lock:
            self._planned.clear()

    def forget(self) -> None:
        """An empty log."""
        self.seen.clear()

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
        asked_by_app = apps.route(
            rest.Request(method, path, query, body, None, self.url), headers, self._apps, self._repos, self._keep
        )
        if asked_by_app is not None:
            return asked_by_app
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
        return rest.route(request, repo, below, talk.ROUTES)

    def _keep(self, token: Token) -> None:
        self._tokens[token.value] = token

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
        if below != "git-receive-pack":
            return over_git.serve(repo, method, below, query, headers, body, token)
        with self._lock:
            return over_git.serve(repo, method, below, query, headers, body, token)

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
