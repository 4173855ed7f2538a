"""What a person's repository and their git are configured to, read from files alone: guards and the snapshot need to know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agent_harness.inert_git import Git
from agent_harness.surfaces.checkout import Checkout
from agent_harness.tasks import task_group
from agent_harness.world import GitFacts

Config = Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class HostFacts:
    """One look.

    Attributes:
        branch: the checked-out branch; empty when HEAD is detached.
        head: id of its commit; empty when there is none yet.
        own: lower-cased key -> values of the repository's own configuration.
        whole: the same after the machine's and the person's.
        branches: short names of the local branches.
        symrefs: full ref -> full ref.
    """

    branch: str
    head: str
    own: Config
    whole: Config
    branches: tuple[str, ...]
    symrefs: Mapping[str, str]

    def for_guards(self, own_branch: str, default_branch: str, *, confined: bool) -> GitFacts:
        """What decides where a push would go; a confined command does not see the person's own configuration."""
        config = self.own if confined else self.whole
        remotes = {
            key.removeprefix("remote.").removesuffix(".url"): values[-1]
            for key, values in config.items()
            if key.startswith("remote.") and key.endswith(".url")
        }
        return GitFacts(
            branch=self.branch or None,
            own_branch=own_branch,
            default_branch=default_branch,
            remotes=remotes,
            config=config,
            local_branches=self.branches,
            symrefs=self.symrefs,
        )


async def read_facts(git: Git, checkout: Checkout, home: Path, environ: Mapping[str, str]) -> HostFacts:
    """Look at a checkout.

    Args:
        git: the inert runner; it reads refs and configuration files.
        checkout: the person's.
        home: where their own configuration is.
        environ: their environment.
    """
    answers: dict[str, str] = {}

    async def ask(name: str, *args: str) -> None:
        answers[name] = (await git.run(*args, git_dir=checkout.git_dir, ok=(0, 1, 128))).text

    async with task_group() as tasks:
        tasks.start_soon(ask, "branch", "symbolic-ref", "-q", "--short", "HEAD")
        tasks.start_soon(ask, "head", "rev-parse", "-q", "--verify", "HEAD^{commit}")
        tasks.start_soon(ask, "refs", "for-each-ref", "--format=%(refname)%00%(symref)", "refs/heads", "refs/remotes")
        for path in (*_of_person(home, environ), *_of_repository(checkout)):
            if path.is_file():
                tasks.start_soon(ask, str(path), "config", "-z", "--list", "--includes", "--file", str(path))
    refs = [line.split("\0") for line in answers["refs"].splitlines()]
    own = _merged(answers, _of_repository(checkout))
    return HostFacts(
        branch=answers["branch"],
        head=answers["head"],
        own=own,
        whole=_merged(answers, (*_of_person(home, environ), *_of_repository(checkout))),
        branches=tuple(name.removeprefix("refs/heads/") for name, _ in refs if name.startswith("refs/heads/")),
        symrefs={name: target for name, target in refs if target},
    )


def git_home(home: Path, environ: Mapping[str, str]) -> Path:
    """The folder of git's files of a person in the newer place."""
    return Path(environ.get("XDG_CONFIG_HOME") or home / ".config") / "git"


def _of_person(home: Path, environ: Mapping[str, str]) -> tuple[Path, ...]:
    return Path("/etc/gitconfig"), git_home(home, environ) / "config", home / ".gitconfig"


def _of_repository(checkout: Checkout) -> tuple[Path, ...]:
    return checkout.common_dir / "config", checkout.git_dir / "config.worktree"


def _merged(answers: Mapping[str, str], files: Sequence[Path]) -> Config:
    found: dict[str, list[str]] = {}
    for path in files:
        for entry in answers.get(str(path), "").split("\0"):
            key, line, value = entry.partition("\n")
            if key:
                found.setdefault(key.lower(), []).append(value if line else "true")
    return found
