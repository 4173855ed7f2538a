"""From a remote to the sandbox's own repository: a trusted clone on the host, and a repository that lacks every denied file.

A committed `.env` is readable in a repository's history by whoever can read its objects. When there is none, the sandbox's
repository borrows the clone's objects, read-only. Otherwise it gets a pack of its own without the blobs that occur under denied
paths only. A placeholder stands for each of them (git's own replacement refs), so that history can be read; the index entries are
marked as not checked out, so that commits on top keep them as they are; and git's own commits in the sandbox are told that the
missing blobs are promised by the remote (git's own partial clone), which makes it build on them unseen.
"""

from __future__ import annotations

import os
import re
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import anyio.to_thread

from agent_harness.errors import SurfaceError
from agent_harness.inert_git import Git, GitResult, Transport
from agent_harness.progress import doing
from agent_harness.surfaces.bwrap import OBJECTS, REPOSITORY, WORKSPACE
from agent_harness.surfaces.paths import Denied, decode, encode
from agent_harness.tasks import task_group

FETCH_S = 1_800
ORIGIN = "file:///there-is-no-remote-in-this-sandbox"
PLACEHOLDER = b"(left out: not readable by this agent)\n"
PROMISED = (
    ("GIT_CONFIG_COUNT", "1"),
    ("GIT_CONFIG_KEY_0", "remote.origin.promisor"),
    ("GIT_CONFIG_VALUE_0", "true"),
)
"""Variables with which git lets blobs be missing; without them it reads the placeholders."""
RAW = re.compile(rb":\d+ \d+ [0-9a-f]+ ([0-9a-f]+) [A-Z]\d*")
READ_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class CloneSource:
    """What to clone.

    Attributes:
        base_ref: full ref to start from, `refs/heads/main`.
        base_commit: the commit that it had when the session was prepared.
        default_branch: the remote's default branch.
    """

    transport: Transport
    base_ref: str
    base_commit: str
    default_branch: str

    @property
    def branch(self) -> str:
        """Short name of the branch to start from."""
        return self.base_ref.removeprefix("refs/heads/")


@dataclass(frozen=True, slots=True)
class Copied:
    """The sandbox's repository.

    Attributes:
        hidden: denied paths of the base commit, which must not be checked out.
        borrows: it has no objects of its own: those of the trusted clone must be at `OBJECTS`.
        config: what its configuration says.
        branches: short names of its local branches.
        symrefs: full ref -> full ref.
    """

    hidden: Sequence[str]
    borrows: bool
    config: Mapping[str, Sequence[str]]
    branches: tuple[str, ...]
    symrefs: Mapping[str, str]


async def fetch(git: Git, source: CloneSource, to: Path) -> None:
    """Clone into a fresh bare repository on the host, which the sandbox never writes.

    Only the branch to start from, the default branch to compare with, and the tags on their history: a remote may hold thousands
    of other branches, those of earlier sessions among them, and publishing needs nothing but the base.

    Raises:
        GitFailed: the remote could not be read.
        SurfaceError: the commit to start from is not there any more.
    """
    await anyio.to_thread.run_sync(_make_bare, to, source.branch, {"core": {"repositoryformatversion": "0", "bare": "true"}})
    default = f"refs/heads/{source.default_branch}"
    await _fetch(git, source, source.base_ref, to)
    if source.branch != source.default_branch:
        # Where a checkout is the source, its remote's default branch need not be there.
        await _fetch(git, source, default, to, ok=(0, 128))


async def _fetch(git: Git, source: CloneSource, ref: str, to: Path, ok: Container[int] = (0,)) -> None:
    """One branch, and by git's own rule the tags that point into what came with it."""
    url = source.transport.safe_url
    words = ("fetch", "-q", "--", url, f"+{ref}:{ref}")
    with doing(f"cloning {url}") as step:
        await git.run(*words, git_dir=to, transport=source.transport, timeout_s=FETCH_S, ok=ok, step=step)


def _make_bare(folder: Path, branch: str, config: Mapping[str, Mapping[str, str]]) -> None:
    """What `git init --bare` makes, without hooks or templates, and without starting it."""
    for name in ("objects/info", "objects/pack", "refs/heads", "refs/tags", "info"):
        (folder / name).mkdir(parents=True)
    (folder / "HEAD").write_text(f"ref: refs/heads/{branch}\n", encoding="utf-8")
    lines = [
        f"[{section}]\n" + "".join(f"\t{key} = {value}\n" for key, value in keys.items()) for section, keys in config.items()
    ]
    (folder / "config").write_text("".join(lines), encoding="utf-8")


def add_worktree(repository: Path, worktree: Path, branch: str) -> None:
    """What `git worktree add --no-checkout` would write, with the paths that both have inside the sandbox."""
    about = repository / "worktrees" / "workspace"
    about.mkdir(parents=True)
    for path, text in (
        (about / "HEAD", f"ref: refs/heads/{branch}"),
        (about / "commondir", "../.."),
        (about / "gitdir", f"{WORKSPACE}/.git"),
        (worktree / ".git", f"gitdir: {REPOSITORY}/worktrees/workspace"),
    ):
        path.write_text(f"{text}\n", encoding="utf-8")


async def copy(git: Git, base: Path, to: Path, source: CloneSource, branch: str, denied: Denied) -> Copied:
    """Make the sandbox's repository from the trusted one, without blobs that occur under denied paths only.

    Raises:
        GitFailed: the trusted clone could not be read.
        SurfaceError: the commit to start from is not in it.
    """
    answers: dict[str, GitResult] = {}
    listing = to.with_suffix(".objects")

    async def ask(name: str, *args: str, ok: tuple[int, ...] = (0,)) -> None:
        answers[name] = await git.run(*args, git_dir=base, ok=ok)

    async with task_group() as tasks:
        tasks.start_soon(lambda: ask("tree", "ls-tree", "-r", "-z", source.base_commit, ok=(0, 128)))
        tasks.start_soon(ask, "refs", "for-each-ref", "--format=%(objectname) %(refname)")
        await git.run("rev-list", "--objects", "--all", git_dir=base, stdout_file=listing, timeout_s=FETCH_S)
    if answers["tree"].code != 0:
        raise SurfaceError(
            f"{source.branch!r} of {source.transport.safe_url!r} was moved while it was cloned: it no longer holds "
            f"{source.base_commit}; run the same again"
        )
    tree = dict(_tree_entries(answers["tree"].stdout))
    hidden = [path for path in tree if denied(path)]
    secret = await _secret(git, base, listing, {tree[path] for path in hidden}, denied)
    refs = dict(line.split(" ")[::-1] for line in answers["refs"].text.splitlines())
    config = {
        "core": {"repositoryformatversion": "0", "bare": "true", "logallrefupdates": "true"},
        'remote "origin"': {"url": ORIGIN, "fetch": "+refs/heads/*:refs/remotes/origin/*"},
    }
    default = f"refs/remotes/origin/{source.default_branch}"
    inside, branches = _inside_refs(refs, source, branch)
    await anyio.to_thread.run_sync(_make_bare, to, source.branch, config)
    if secret:
        inside |= await _pack_without(git, base, to, listing, secret)
    await anyio.to_thread.run_sync(_write_refs, to, inside, None if default not in inside else default, bool(secret))
    await anyio.to_thread.run_sync(listing.unlink)
    return Copied(
        hidden=hidden,
        borrows=not secret,
        config={
            "core.bare": ("true",),
            "remote.origin.url": (ORIGIN,),
            "remote.origin.fetch": ("+refs/heads/*:refs/remotes/origin/*",),
        },
        branches=branches,
        symrefs={"refs/remotes/origin/HEAD": default} if default in inside else {},
    )


def _tree_entries(listing: bytes) -> Iterator[tuple[str, str]]:
    """Path and object id of each file of an `ls-tree -r -z`."""
    for entry in listing.split(b"\0"):
        about, tab, path = entry.partition(b"\t")
        if tab:
            yield decode(path), about.split(b" ")[2].decode()


def _inside_refs(refs: Mapping[str, str], source: CloneSource, branch: str) -> tuple[dict[str, str], tuple[str, ...]]:
    """The fetched branches as remote-tracking ones, the tags, and two local branches: the base and the session's own."""
    inside = {
        name.replace("refs/heads/", "refs/remotes/origin/", 1): commit
        for name, commit in refs.items()
        if name.startswith(("refs/heads/", "refs/tags/"))
    }
    local = (source.branch, branch)
    inside |= {f"refs/heads/{name}": source.base_commit for name in local}
    return inside, local


async def _secret(git: Git, base: Path, listing: Path, at_base: set[str], denied: Denied) -> set[str]:
    """Ids of the blobs that occur under denied paths, in all of the history, and under no other path.

    Each object is listed once, with the first of its paths. So only if one is listed under a denied path every path of every
    commit has to be looked at.
    """
    suspects = at_base | await anyio.to_thread.run_sync(_listed_denied, listing, denied)
    if not suspects:
        return set()
    asked = "".join(f"{object_id}\n" for object_id in suspects).encode()
    types = await git.run("cat-file", "--batch-check=%(objectname) %(objecttype)", git_dir=base, stdin=asked)
    suspects = {line.split(" ")[0] for line in types.text.splitlines() if line.endswith(" blob")}
    if not suspects:
        return set()
    changes = listing.with_suffix(".changes")
    look = ("log", "--all", "-m", "--root", "--raw", "--no-abbrev", "--no-renames", "--format=", "-z")
    await git.run(*look, git_dir=base, stdout_file=changes, timeout_s=FETCH_S)
    allowed = await anyio.to_thread.run_sync(_changed_allowed, changes, denied)
    await anyio.to_thread.run_sync(changes.unlink)
    return suspects - allowed


def _listed_denied(listing: Path, denied: Denied) -> set[str]:
    found: set[str] = set()
    with listing.open("rb") as lines:
        for line in lines:
            object_id, space, path = line.rstrip(b"\n").partition(b" ")
            if space and path and denied(decode(path)):
                found.add(object_id.decode())
    return found


def _changed_allowed(changes: Path, denied: Denied) -> set[str]:
    """Every blob that some commit put under a path that is not denied."""
    found: set[str] = set()
    put: str | None = None
    for field in _fields(changes):
        if put is not None:
            if not denied(decode(field)):
                found.add(put)
            put = None
        elif (raw := RAW.fullmatch(field.lstrip(b"\n"))) is not None:
            put = raw[1].decode()
    return found


def _fields(file: Path) -> Iterator[bytes]:
    rest = b""
    with file.open("rb") as source:
        while piece := source.read(READ_BYTES):
            *whole, rest = (rest + piece).split(b"\0")
            yield from whole
    if rest:
        yield rest


async def _pack_without(git: Git, base: Path, to: Path, listing: Path, secret: set[str]) -> dict[str, str]:
    """Give the repository a pack without these blobs; returns the refs that put a placeholder in the place of each."""
    wanted = listing.with_suffix(".wanted")
    await anyio.to_thread.run_sync(_leave_out, listing, wanted, secret)
    names = await git.run(
        "pack-objects", "-q", str(to / "objects" / "pack" / "pack"), git_dir=base, stdin_file=wanted, timeout_s=FETCH_S
    )
    placeholder = await git.run("hash-object", "-w", "--stdin", git_dir=to, stdin=PLACEHOLDER)
    await anyio.to_thread.run_sync(_promise, to / "objects" / "pack", names.text.split(), wanted)
    return {f"refs/replace/{object_id}": placeholder.text for object_id in secret}


def _leave_out(listing: Path, wanted: Path, secret: set[str]) -> None:
    left = {object_id.encode() for object_id in secret}
    with listing.open("rb") as lines, wanted.open("wb") as file:
        file.writelines(line for line in lines if line[:64].split(b" ", 1)[0].rstrip(b"\n") not in left)


def _promise(packs: Path, names: Sequence[str], wanted: Path) -> None:
    for name in names:
        (packs / f"pack-{name}.promisor").touch()
    wanted.unlink()


def _write_refs(repository: Path, refs: Mapping[str, str], default: str | None, own_objects: bool) -> None:
    packed = b"".join(encode(f"{commit} {name}\n") for name, commit in sorted(refs.items(), key=lambda each: encode(each[0])))
    (repository / "packed-refs").write_bytes(b"# pack-refs with: sorted \n" + packed)
    if default is not None:
        head = repository / "refs" / "remotes" / "origin" / "HEAD"
        head.parent.mkdir(parents=True)
        head.write_bytes(encode(f"ref: {default}\n"))
    if not own_objects:
        (repository / "objects" / "info" / "alternates").write_bytes(os.fsencode(f"{OBJECTS}\n"))
