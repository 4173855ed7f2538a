"""From a remote to the sandbox's own repository: a trusted clone on the host, and a copy of it that lacks every denied file.

A committed `.env` is readable in a repository's history by whoever can read its objects. So objects that occur under denied paths
only are never copied into the sandbox's repository; they are declared as promised (git's own partial clone), and their index
entries as not checked out, so that commits on top keep them as they are.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import anyio.to_thread

from agent_harness.inert_git import Git, Transport
from agent_harness.surfaces.bwrap import REPOSITORY, WORKSPACE
from agent_harness.surfaces.paths import Denied

FETCH_S = 1_800


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


async def fetch(git: Git, source: CloneSource, to: Path) -> None:
    """Clone every branch and tag into a fresh bare repository on the host, which the sandbox never sees.

    Raises:
        GitFailed: the remote could not be read.
    """
    await git.run("init", "-q", "--bare", "--initial-branch", source.base_ref.removeprefix("refs/heads/"), str(to))
    refspecs = ("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")
    url = source.transport.safe_url
    await git.run("fetch", "-q", "--no-tags", "--", url, *refspecs, git_dir=to, transport=source.transport, timeout_s=FETCH_S)


def add_worktree(repository: Path, worktree: Path, branch: str, commit: str) -> None:
    """What `git worktree add --no-checkout` would write, with the paths that both have inside the sandbox."""
    about = repository / "worktrees" / "workspace"
    about.mkdir(parents=True)
    head = repository / "refs" / "heads" / branch
    head.parent.mkdir(parents=True, exist_ok=True)
    for path, text in (
        (head, commit),
        (about / "HEAD", f"ref: refs/heads/{branch}"),
        (about / "commondir", "../.."),
        (about / "gitdir", f"{WORKSPACE}/.git"),
        (worktree / ".git", f"gitdir: {REPOSITORY}/worktrees/workspace"),
    ):
        path.write_text(f"{text}\n", encoding="utf-8")


async def copy(git: Git, base: Path, to: Path, base_commit: str, denied: Denied) -> list[str]:
    """Make the sandbox's repository from the trusted one, with every ref, without blobs that occur under denied paths only.

    Returns:
        The denied paths of the base commit, which must not be checked out.
    """
    listed = [line.partition(" ") for line in (await git.run("rev-list", "--objects", "--all", git_dir=base)).text.splitlines()]
    secret = await _blobs(git, base, {object_id for object_id, _, path in listed if path and denied(path)})
    tree = [
        entry.split("\t", 1)
        for entry in (await git.run("ls-tree", "-r", "-z", base_commit, git_dir=base)).text.split("\0")
        if entry
    ]
    secret -= {about.split(" ")[2] for about, path in tree if not denied(path)}
    if not secret:
        await anyio.to_thread.run_sync(shutil.copytree, base, to)
    else:
        await _copy_promised(git, base, to, [object_id for object_id, _, _ in listed if object_id not in secret])
    return [path for _, path in tree if denied(path)]


async def _blobs(git: Git, base: Path, object_ids: set[str]) -> set[str]:
    """Those that are files; a folder's listing of names must stay, or no commit could be read."""
    if not object_ids:
        return set()
    asked = "".join(f"{object_id}\n" for object_id in object_ids).encode()
    types = await git.run("cat-file", "--batch-check=%(objectname) %(objecttype)", git_dir=base, stdin=asked)
    return {line.split(" ")[0] for line in types.text.splitlines() if line.endswith(" blob")}


async def _copy_promised(git: Git, base: Path, to: Path, object_ids: list[str]) -> None:
    pack = to.with_suffix(".pack")
    await git.run("init", "-q", "--bare", str(to))
    ids = "".join(f"{object_id}\n" for object_id in object_ids).encode()
    await git.run("pack-objects", "-q", "--stdout", git_dir=base, stdin=ids, stdout_file=pack, timeout_s=FETCH_S)
    await git.run("index-pack", "--promisor=origin", "--stdin", git_dir=to, stdin_file=pack, timeout_s=FETCH_S)
    await anyio.Path(pack).unlink()
    refs = await git.run("for-each-ref", "--format=%(objectname) %(refname)", git_dir=base)
    await anyio.Path(to / "packed-refs").write_bytes(b"# pack-refs with: sorted \n" + refs.stdout)
    for key, value in (
        ("core.repositoryFormatVersion", "1"),
        ("extensions.partialClone", "origin"),
        ("remote.origin.promisor", "true"),
        ("remote.origin.partialCloneFilter", "blob:none"),
        ("remote.origin.url", "left-out://denied-files-are-not-in-this-sandbox"),
    ):
        await git.run("config", key, value, git_dir=to)
