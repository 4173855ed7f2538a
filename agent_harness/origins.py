"""Where a session's work comes from and goes to: a git URL, or a path on this machine and its `origin`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from agent_harness.errors import ConfigError
from agent_harness.inert_git import Git, GitFailed, RemoteRefs, Transport
from agent_harness.progress import doing

Reach = Callable[[str], Awaitable[Transport]]
"""How git gets to a URL: with credentials where it has to, which may have to be asked for."""


async def plainly(url: str) -> Transport:
    """With what the URL itself carries."""
    return Transport(url)


@dataclass(frozen=True, slots=True)
class Origin:
    """A repository to work on, looked at and found usable.

    Attributes:
        source: what is cloned.
        target: where `agent/<id>` is pushed to; None when there is nowhere.
        base_ref: full ref of the source to start from.
        base_commit: the commit that it has.
        base: the branch of the target that the pull request proposes to.
        default_branch: the target's default branch, which nobody may push to.
        checkout: the person's own working folder, when the source is one.
        left_out: what of the checkout is not committed, in one line for the person; empty when all of it is.
    """

    source: Transport
    target: Transport | None
    base_ref: str
    base_commit: str
    base: str
    default_branch: str
    checkout: Path | None = None
    left_out: str = ""


async def of_url(git: Git, transport: Transport, base: str | None) -> Origin:
    """A repository by its URL; it is also where the work goes.

    Raises:
        ConfigError: it cannot be read, is empty, or lacks that base branch.
    """
    refs = await look(git, transport)
    name = _branch(refs, base, transport)
    commit = refs.refs[f"refs/heads/{name}"]
    return Origin(transport, transport, f"refs/heads/{name}", commit, name, refs.default_branch or name)


async def of_path(git: Git, path: Path, base: str | None, transport_of: Reach = plainly, *, publishes: bool) -> Origin:
    """The HEAD of a person's checkout (or of a bare repository); the work goes to its `origin`.

    Args:
        git: the inert runner; it only reads refs and two configuration values there.
        path: the checkout, or a folder in it.
        base: the branch to start from instead of HEAD.
        transport_of: how git gets to the URL of the `origin`.
        publishes: a pull request is wanted, so an `origin` has to be there.

    Raises:
        ConfigError: no repository, no commit, no such branch, or nowhere to publish to.
    """
    top, git_dir = find_repository(path)
    branch = base or await _ask(git, git_dir, "symbolic-ref", "-q", "--short", "HEAD")
    if not branch:
        raise ConfigError(f"the HEAD of {str(top)!r} is detached; check out a branch, or say which to start from with --base")
    commit = await _ask(git, git_dir, "rev-parse", "-q", "--verify", f"refs/heads/{branch}^{{commit}}")
    if not commit:
        what = f"has no branch {base!r}" if base else "has no commits yet; make a first commit, then delegate"
        raise ConfigError(f"{str(top)!r} {what}")
    target, refs = await _target(git, top, git_dir, transport_of, publishes=publishes)
    default = (refs.default_branch if refs else None) or branch
    proposed = branch if refs is None or f"refs/heads/{branch}" in refs.refs else default
    if refs is not None and f"refs/heads/{proposed}" not in refs.refs:
        raise ConfigError(f"the origin of {str(top)!r} has no branch {branch!r} and no default branch; push {branch!r} first")
    checkout = None if git_dir == top else top
    return Origin(Transport(str(git_dir)), target, f"refs/heads/{branch}", commit, proposed, default, checkout)


async def _target(
    git: Git, top: Path, git_dir: Path, transport_of: Reach, *, publishes: bool
) -> tuple[Transport | None, RemoteRefs | None]:
    url = await origin_url(git, top, git_dir)
    if not url:
        if publishes and git_dir != top:
            raise ConfigError(f"{str(top)!r} has no remote 'origin' to push to; add one, or keep the work with --no-pr")
        own = Transport(str(git_dir))
        return (own, await look(git, own)) if publishes else (None, None)
    transport = await transport_of(url)
    return transport, await look(git, transport) if publishes else None


async def origin_url(git: Git, top: Path, git_dir: Path) -> str:
    """The URL of the `origin`, a relative path made absolute; empty when there is none."""
    url = await _ask(git, git_dir, "config", "--get", "remote.origin.url")
    return str((top / url).resolve()) if url and "://" not in url and ":" not in url.split("/")[0] else url


def find_repository(path: Path) -> tuple[Path, Path]:
    """The top folder of the checkout and its git directory; both the same for a bare repository.

    Raises:
        ConfigError: there is none.
    """
    start = path.absolute()
    if not start.is_dir():
        raise ConfigError(f"{str(path)!r} is not a folder; give a git repository, or a git URL")
    for folder in (start, *start.parents):
        if (folder / ".git").exists():
            return folder, folder / ".git"
        if (folder / "HEAD").is_file() and (folder / "objects").is_dir() and (folder / "refs").is_dir():
            return folder, folder
    raise ConfigError(f"{str(path)!r} is not a git repository; run `git init` and commit there, or give a git URL")


async def _ask(git: Git, git_dir: Path, *args: str) -> str:
    """One value of a repository; empty when it has none."""
    return (await git.run(*args, git_dir=git_dir, ok=(0, 1, 128))).text.strip()


async def look(git: Git, transport: Transport) -> RemoteRefs:
    """What a remote has.

    Raises:
        ConfigError: it cannot be read.
    """
    try:
        with doing(f"asking {transport.safe_url} for its branches", fleeting=True):
            return await git.ls_remote(transport)
    except GitFailed as error:
        said = error.stderr.strip().splitlines()
        telling = (line for line in said if line.startswith(("fatal:", "ERROR:", "remote:")))
        detail = next(telling, said[-1] if said else str(error)).removeprefix("fatal: ")
        raise ConfigError(
            f"{transport.safe_url!r} cannot be read as a git repository ({detail}); "
            "check the URL, that it is reachable from here, and your access to it"
        ) from error


def _branch(refs: RemoteRefs, wanted: str | None, transport: Transport) -> str:
    heads = [name.removeprefix("refs/heads/") for name in refs.refs if name.startswith("refs/heads/")]
    if not heads:
        raise ConfigError(f"{transport.safe_url!r} has no commits yet; push a first commit, then delegate")
    if wanted is not None and wanted not in heads:
        raise ConfigError(f"--base {wanted!r} is no branch of {transport.safe_url!r}; it has: {', '.join(sorted(heads)[:5])}")
    base = wanted or refs.default_branch
    if base is None or base not in heads:
        raise ConfigError(f"{transport.safe_url!r} names no default branch that exists; say which to start from with --base")
    return base


def is_path(repo: str, started_in: Path) -> bool:
    """Whether that is a place on this machine rather than a URL; an existing path wins."""
    return exists(repo, started_in) or (not urlsplit(repo).scheme and ":" not in repo.split("/")[0])


def exists(repo: str, started_in: Path) -> bool:
    """Whether there is something of that name on this machine."""
    try:
        return (started_in / repo).exists()
    except (OSError, ValueError):  # no path at all: too long, or a name that no file can have
        return False
