"""What the stand-in for GitHub knows: tokens, repositories (each a bare git repository), pull requests and issues."""

from __future__ import annotations

import base64
import fnmatch
import json
import os
import secrets
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Literal

Shape = Literal["installation", "installation_jwt", "fine_grained", "classic"]
Level = Literal["read", "write"]
PUBLISHER: Mapping[str, Level] = {"metadata": "read", "contents": "write", "pull_requests": "write", "issues": "read"}


def git(*args: str, git_dir: Path, ok: bool = True) -> tuple[int, str]:
    """Plain git in a bare repository: exit code and output; an error is raised unless `ok` is False."""
    env = {"PATH": os.environ["PATH"], "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "LC_ALL": "C.UTF-8"}
    done = subprocess.run(["git", f"--git-dir={git_dir}", *args], env=env, capture_output=True, text=True, check=False)
    if ok and done.returncode:
        raise AssertionError(f"git {args}: {done.stderr}")
    return done.returncode, done.stdout.strip()


@dataclass
class Token:
    """A credential. `repositories` are the ids that it covers, None for all; `expires_at` is seconds since 1970."""

    value: str
    login: str
    kind: Shape
    permissions: Mapping[str, Level]
    repositories: frozenset[int] | None
    expires_at: float | None = None
    revoked: bool = False

    @property
    def valid(self) -> bool:
        return not self.revoked and (self.expires_at is None or time.time() < self.expires_at)

    @property
    def refusal(self) -> str:
        """What a request beyond its permissions is told."""
        who = "integration" if self.kind.startswith("installation") else "personal access token"
        return f"Resource not accessible by {who}"

    def covers(self, repo: Repo) -> bool:
        return self.repositories is None or repo.id in self.repositories

    def may(self, permission: str, level: Level) -> bool:
        held = self.permissions.get(permission)
        return held == "write" or (level == "read" and held == "read")


def new_token_value(shape: Shape) -> str:
    """A token as GitHub makes them: installation tokens in the form until 2026 and in the longer one since."""
    if shape == "classic":
        return f"ghp_{_letters(36)}"
    if shape == "fine_grained":
        return f"github_pat_{_letters(22)}_{_letters(59)}"
    if shape == "installation":
        return f"ghs_{_letters(36)}"
    head, claims = ({"alg": "ES256", "typ": "JWT"}, {"iss": "github", "jti": _letters(150)})
    parts = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in (head, claims)]
    return f"ghs_123456_{parts[0]}.{parts[1]}.{_letters(80)}-_{_letters(80)}"


def _letters(number: int) -> str:
    return "".join(secrets.choice("abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789") for _ in range(number))


@dataclass
class Comment:
    body: str
    author: str | None
    association: str


@dataclass
class Pull:
    number: int
    title: str
    body: str | None
    head: str
    base: str
    sha: str
    author: str
    draft: bool = False
    state: Literal["open", "closed"] = "open"
    merged: bool = False
    labels: list[str] = field(default_factory=list[str])
    reviewers: list[str] = field(default_factory=list[str])
    team_reviewers: list[str] = field(default_factory=list[str])
    reviews: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    comments: list[Comment] = field(default_factory=list[Comment])


@dataclass
class IssueRecord:
    number: int
    title: str
    body: str | None
    author: str | None
    transferred_to: str | None = None
    association: str = "NONE"
    labels: list[str] = field(default_factory=list[str])
    comments: list[Comment] = field(default_factory=list[Comment])


@dataclass(frozen=True)
class Ruleset:
    """A rule for branches, which no push meets here. `says` is its line in a refusal."""

    branches: str
    says: str = "Commits must have verified signatures."

    def targets(self, branch: str) -> bool:
        return fnmatch.fnmatchcase(branch, self.branches)


@dataclass
class Repo:
    """A repository. Its branches and commits are those of `bare`, always.

    Attributes:
        drafts: whether its plan has draft pull requests.
        protected: globs of branches that nobody may push to.
        rulesets: rules that refuse every push to their branches.
        push_protection: texts that count as secrets.
        max_blob_bytes: the largest file that a push may hold.
        head_lag: how many more pull requests are refused because a branch that is there is not seen yet.
        collaborators: who may be asked for a review.
        updates: every branch that a push changed, with its new commit.
    """

    id: int
    full_name: str
    bare: Path
    private: bool = True
    archived: bool = False
    drafts: bool = True
    protected: tuple[str, ...] = ()
    rulesets: tuple[Ruleset, ...] = ()
    push_protection: tuple[str, ...] = ()
    max_blob_bytes: int = 100 << 20
    head_lag: int = 0
    collaborators: frozenset[str] = frozenset()
    teams: frozenset[str] = frozenset()
    labels: dict[str, str] = field(default_factory=dict[str, str])
    updates: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    pulls: dict[int, Pull] = field(default_factory=dict[int, Pull])
    issues: dict[int, IssueRecord] = field(default_factory=dict[int, IssueRecord])
    numbers: count[int] = field(default_factory=lambda: count(1))

    @property
    def owner(self) -> str:
        return self.full_name.split("/")[0]

    @property
    def default_branch(self) -> str:
        return git("symbolic-ref", "--short", "HEAD", git_dir=self.bare)[1]

    @property
    def empty(self) -> bool:
        return not git("for-each-ref", "--count=1", "refs/heads/", git_dir=self.bare)[1]

    def sha(self, branch: str) -> str | None:
        code, found = git("rev-parse", "-q", "--verify", f"refs/heads/{branch}^{{commit}}", git_dir=self.bare, ok=False)
        return found if code == 0 else None

    def is_protected(self, branch: str) -> bool:
        return any(fnmatch.fnmatchcase(branch, glob) for glob in self.protected)

    def related(self, one: str, other: str) -> bool:
        return git("merge-base", one, other, git_dir=self.bare, ok=False)[0] == 0

    def ahead(self, base: str, head: str) -> int:
        return int(git("rev-list", "--count", f"{base}..{head}", git_dir=self.bare)[1])

    def open_pull(self, pull: Pull) -> None:
        self.pulls[pull.number] = pull
        git("update-ref", f"refs/pull/{pull.number}/head", pull.sha, git_dir=self.bare)

    def after_push(self) -> None:
        """Open pull requests follow their branches: moved, closed with a deleted one, merged when the base has them."""
        for pull in self.pulls.values():
            if pull.state == "closed":
                continue
            head, base = self.sha(pull.head), self.sha(pull.base)
            if head is None or base is None:
                pull.state = "closed"
                continue
            if head != pull.sha:
                pull.sha = head
                git("update-ref", f"refs/pull/{pull.number}/head", head, git_dir=self.bare)
            if git("merge-base", "--is-ancestor", head, base, git_dir=self.bare, ok=False)[0] == 0:
                pull.state, pull.merged = "closed", True
