"""Takes finished work out of an untrusted bundle into a quarantine repository of the harness's own.

A bundle is written by whatever ran in the sandbox, so nothing in it is believed. `git fetch BUNDLE` is not used: up to git 2.39
it skips the object checks that a fetch from a server makes. Here the header is read by us and the pack goes through
`index-pack --strict` into a fresh bare repository which borrows the base's objects. Files that the agent was never shown are
not in the sandbox's pack; the base has them, so the whole is complete without them.
"""

from __future__ import annotations

import re
import shutil
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import anyio.to_thread

from agent_harness.errors import PublishError
from agent_harness.inert_git import HOSTILE, Git, GitFailed

Why = Literal["too_big", "malformed", "wrong_refs", "unknown_base", "rejected", "not_a_commit", "incomplete", "unrelated"]

MAX_BUNDLE_BYTES = 256 << 20  # one push to a forge may be 2 GiB; the work of one session never is
MAX_OBJECTS = 50_000
MAX_HEADER_BYTES = 64 << 10
SIGNATURE = b"# v2 git bundle\n"
REF_LINE = re.compile(rb"([0-9a-f]{40}) (.+)")
PREREQUISITE_LINE = re.compile(rb"-([0-9a-f]{40})(?: .*)?")


class BundleRefused(PublishError):
    """The bundle is not what an honest export makes; nothing of it was used.

    Attributes:
        why: a stable word for the check that it failed.
        bundle: where it lies.
    """

    def __init__(self, why: Why, found: str, bundle: Path) -> None:
        super().__init__(
            f"the work that came out of the sandbox is refused ({why}): {found}; nothing was pushed, and the bundle"
            f" {str(bundle)!r} is kept: look at it only in a throwaway repository",
            reason=f"bundle_{why}",
        )
        self.why: Why = why
        self.bundle = bundle


@dataclass(frozen=True, slots=True)
class BundleHeader:
    """What stands before the pack.

    Attributes:
        head: id of the one ref's commit.
        prerequisites: ids of commits that the receiver must have.
        pack_offset: the byte where the pack starts.
        objects: how many objects the pack says it has.
    """

    head: str
    prerequisites: tuple[str, ...]
    pack_offset: int
    objects: int


def read_header(bundle: Path, ref: str, max_bytes: int = MAX_BUNDLE_BYTES) -> BundleHeader:
    """The header of a version 2 bundle that has exactly the ref `ref`.

    Raises:
        BundleRefused: `too_big`, `malformed` or `wrong_refs`.
    """
    if bundle.is_symlink() or not bundle.is_file():
        raise BundleRefused("malformed", "it is no regular file", bundle)
    size = bundle.stat().st_size
    if size > max_bytes:
        raise BundleRefused("too_big", f"it has {size:,} bytes, at most {max_bytes:,} are taken", bundle)
    with bundle.open("rb") as file:
        start = file.read(MAX_HEADER_BYTES)
    if not start.startswith(SIGNATURE):
        found = start[:20].split(b"\n")[0]
        raise BundleRefused("malformed", f"it starts with {found!r}, not with {SIGNATURE.strip()!r}", bundle)
    end = start.find(b"\n\n")
    if end < 0:
        raise BundleRefused("malformed", f"its header does not end within {MAX_HEADER_BYTES:,} bytes", bundle)
    prerequisites: list[str] = []
    refs: list[tuple[str, bytes]] = []
    for line in start[len(SIGNATURE) : end].split(b"\n"):
        if (found := PREREQUISITE_LINE.fullmatch(line)) and not refs:
            prerequisites.append(found[1].decode())
        elif found := REF_LINE.fullmatch(line):
            refs.append((found[1].decode(), found[2]))
        else:
            raise BundleRefused("malformed", f"its header has the line {line[:80]!r}", bundle)
    if [name for _, name in refs] != [ref.encode()]:
        names = ", ".join(repr(name.decode("utf-8", "replace"))[:80] for _, name in refs[:5])
        raise BundleRefused("wrong_refs", f"it has {len(refs)} refs ({names}) instead of {ref!r} alone", bundle)
    pack = start[end + 2 : end + 14]
    if len(pack) < 12 or pack[:4] != b"PACK":
        raise BundleRefused("malformed", "there is no pack after its header", bundle)
    (objects,) = struct.unpack(">I", pack[8:12])
    if objects > MAX_OBJECTS:
        raise BundleRefused("too_big", f"it has {objects:,} objects, at most {MAX_OBJECTS:,} are taken", bundle)
    return BundleHeader(refs[0][0], tuple(prerequisites), end + 2, objects)


async def import_bundle(
    git: Git,
    bundle: Path,
    *,
    ref: str,
    base_git: Path,
    base_commit: str,
    quarantine: Path,
    max_bytes: int = MAX_BUNDLE_BYTES,
) -> str:
    """Bring the bundle's commit into a fresh quarantine repository; returns its full id.

    Args:
        git: the runner.
        bundle: the untrusted file.
        ref: the one ref that it must have, `refs/heads/agent/<id>`.
        base_git: the trusted repository that the work started from; only read.
        base_commit: the commit in it that the work must descend from.
        quarantine: where the repository is made; one left by an earlier attempt is replaced.
        max_bytes: the largest bundle that is taken.

    Raises:
        BundleRefused: see its `why`.
        GitFailed: git itself could not work here.
    """
    header = await anyio.to_thread.run_sync(read_header, bundle, ref, max_bytes)
    await anyio.to_thread.run_sync(lambda: shutil.rmtree(quarantine, ignore_errors=True))
    await git.run("init", "--quiet", "--bare", "--template=", str(quarantine))
    await anyio.to_thread.run_sync(_borrow_objects, base_git, quarantine)
    for commit in header.prerequisites:
        found = await git.run("cat-file", "-e", f"{commit}^{{commit}}", git_dir=quarantine, ok=(0, 1, 128))
        if found.code != 0:
            raise BundleRefused("unknown_base", f"it builds on {commit}, which the repository does not have", bundle)
    try:
        await git.run(
            "index-pack",
            "--stdin",
            "--fix-thin",
            "--strict",
            f"--max-input-size={max_bytes}",
            git_dir=quarantine,
            stdin_file=bundle,
            stdin_offset=header.pack_offset,
            ceilings=HOSTILE,
        )
    except GitFailed as failure:
        raise BundleRefused("rejected", _last_line(failure), bundle) from failure
    await _check_commit(git, quarantine, header.head, base_commit, bundle)
    return header.head


def _borrow_objects(base_git: Path, quarantine: Path) -> None:
    info = quarantine / "objects" / "info"
    info.mkdir(parents=True, exist_ok=True)
    (info / "alternates").write_text(f"{base_git.absolute() / 'objects'}\n", encoding="utf-8")


async def _check_commit(git: Git, quarantine: Path, head: str, base_commit: str, bundle: Path) -> None:
    """The object is there, is a commit, lacks nothing, and descends from the base."""
    kind = await git.run("cat-file", "-t", head, git_dir=quarantine, ok=(0, 128))
    if kind.code != 0:
        raise BundleRefused("incomplete", f"the commit {head} is not in it", bundle)
    if kind.text != "commit":
        raise BundleRefused("not_a_commit", f"{head} is a {kind.text}", bundle)
    try:
        await git.run("rev-list", "--objects", "--quiet", head, "--not", base_commit, git_dir=quarantine, ceilings=HOSTILE)
    except GitFailed as failure:
        raise BundleRefused("incomplete", _last_line(failure), bundle) from failure
    descends = await git.run("merge-base", "--is-ancestor", base_commit, head, git_dir=quarantine, ok=(0, 1), ceilings=HOSTILE)
    if descends.code != 0:
        raise BundleRefused("unrelated", f"{head} does not descend from the base commit {base_commit}", bundle)


def _last_line(failure: GitFailed) -> str:
    lines = [line.strip() for line in failure.stderr.splitlines() if line.strip()]
    return lines[-1][:300] if lines else str(failure)
