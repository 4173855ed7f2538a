"""The `local` surface: a disposable clone in one long-lived bubblewrap on this machine, without network or credentials."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from subprocess import DEVNULL

import anyio
import anyio.to_thread

from agent_harness.errors import SurfaceError, ToolFailed
from agent_harness.inert_git import Git
from agent_harness.processes import patiently
from agent_harness.progress import doing
from agent_harness.surfaces import bwrap, clone
from agent_harness.surfaces.base import Capabilities, ExecResult, ExportedWork, OnOutput
from agent_harness.surfaces.clone import CloneSource
from agent_harness.surfaces.files import HostFiles
from agent_harness.surfaces.on_disk import OnDisk
from agent_harness.surfaces.paths import Denied, encode, normalise
from agent_harness.surfaces.sandbox import Sandbox, run_once
from agent_harness.surfaces.world import HostWorld
from agent_harness.tasks import task_group
from agent_harness.world import GitFacts, World

__all__ = ["CloneSource", "LocalSurface"]

MAX_BUNDLE_BYTES = 2 << 30  # what a forge takes in one push
GIT_S = 600
OURS = (".agent", ".agent-traces")
TEMPORARY = ".agent/tmp"
SAFE = ("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "commit.gpgSign=false", "-c", "gc.auto=0")

EXPORT = f"""
exec 3>&1 >/tmp/said 2>&1
trap 'code=$?; [ $code = 0 ] || cat /tmp/said >&3' EXIT
set -e
message=$1 branch=$2 base=$3
shift 3
git() {{ command git {" ".join(SAFE)} -c user.name=agent-harness -c user.email=agent-harness@localhost "$@"; }}
git ls-files -z --others --exclude-standard | sed -z -n 's|/$||; t nested; d; :nested; s|^|:(exclude,top,literal)|p' >/tmp/nested
printf '%s\\0' ':(top)' "$@" | cat - /tmp/nested | git add -A --pathspec-from-file=- --pathspec-file-nul
git diff --cached --quiet || git commit -q --no-verify --no-gpg-sign -m "$message"
[ "$(git rev-parse "$branch^{{tree}}")" = "$(git rev-parse "$base^{{tree}}")" ] || git bundle create -q - "$base..$branch" >&3
"""
"""Standard output is the bundle, or why there is none; what git says on the way must not get into it.

Of a repository inside the worktree git would keep a bare pointer, and fail where it has no commit: it is left out.
"""
UNLOCK = ("find", bwrap.REPOSITORY, "-name", "*.lock", "-type", "f", "-delete")
"""After git was killed: its locks would stop every later commit, and nobody else writes there."""


class LocalSurface(OnDisk):
    """Clones, checks out inside the sandbox, and throws everything away at the end.

    Args:
        folder: the session folder; everything made here lies in it.
        git: the inert runner.
        source: what to clone.
        branch: the session's branch.
        deny: extra denied globs.
    """

    name = "local"
    capabilities = Capabilities(exec=True, network=False, git=True)
    root = bwrap.WORKSPACE

    def __init__(
        self,
        folder: Path,
        git: Git,
        source: CloneSource,
        branch: str,
        deny: Sequence[str] = (),
    ) -> None:
        self._folder = folder
        self._git = git
        self._source = source
        self._branch = branch
        self._deny = tuple(deny)
        self.host_root: Path | None = folder / "worktree"
        self._profile = bwrap.Profile(folder / "worktree", folder / "repo.git")
        self._promised: tuple[tuple[str, str], ...] = ()
        self._environment = bwrap.environment()
        self._writing = anyio.Lock()
        self._killed = False
        self._sandbox: Sandbox | None = None
        self._facts = GitFacts(branch, branch, source.default_branch)

    async def open(self) -> None:
        """Clone, check out, start.

        Raises:
            ConfigError: bubblewrap does not work on this machine.
            SurfaceError: the clone, the checkout or the sandbox failed.
            GitFailed: the remote could not be read.
        """
        base, repository, worktree = self._folder / "base.git", self._folder / "repo.git", self._folder / "worktree"
        worktree.mkdir(mode=0o700)
        denied = Denied(self._deny)
        async with task_group() as tasks:
            tasks.start_soon(bwrap.check)
            await clone.fetch(self._git, self._source, base)
        with doing("making the sandbox's own repository"):
            copied = await clone.copy(self._git, base, repository, self._source, self._branch, denied)
        clone.add_worktree(repository, worktree, self._branch)
        exclude = [*(f"/{name}/" for name in OURS), *denied.gitignore()]
        (repository / "info" / "exclude").write_bytes(b"".join(encode(line) + b"\n" for line in exclude))
        self._profile = replace(self._profile, objects=base / "objects" if copied.borrows else None)
        self._promised = () if copied.borrows else clone.PROMISED
        self._facts = replace(
            self._facts,
            remotes={"origin": clone.ORIGIN},
            config=copied.config,
            local_branches=copied.branches,
            symrefs=copied.symrefs,
        )
        async with task_group() as tasks:
            tasks.start_soon(self._start)
            with doing("checking the files out in the sandbox"):
                await self._check_out(copied.hidden)
        self._files = await anyio.to_thread.run_sync(self._settle, worktree)

    def _settle(self, worktree: Path) -> HostFiles:
        """Our own folders; a repository may have laid something else there, which then stays as it is."""
        files = HostFiles(worktree, self._deny, seen_as=self.root)
        for name in OURS:
            with suppress(ToolFailed):
                files.write(f"{name}/.gitignore", b"*\n", create=True)
        with suppress(ToolFailed):
            files.write(f"{TEMPORARY}/.gitignore", b"*\n", create=True)
        return files

    async def _start(self) -> None:
        with doing("starting the sandbox"):
            self._sandbox = await Sandbox.start(self._profile)

    async def _check_out(self, hidden: Sequence[str]) -> None:
        """Inside, so that no attribute or filter of the repository ever acts on this machine."""
        if not hidden:
            await self._inside(["git", *SAFE, "reset", "-q", "--hard"])
            return
        names = b"".join(encode(path) + b"\0" for path in hidden)
        script = (
            'git read-tree HEAD && git update-index -z --skip-worktree --stdin && git ls-files -z -v | sed -z -n "s/^H //p" '
            "| git checkout-index -q -u -z --stdin"
        )
        await self._inside(["sh", "-c", script], stdin=names)

    async def _inside(self, argv: Sequence[str], *, stdin: bytes = b"") -> None:
        """Run one of our own git commands with a writable repository.

        Raises:
            SurfaceError: it failed.
        """
        said = bytearray()

        def keep(data: bytes) -> None:
            said.extend(data[: max(0, 4_096 - len(said))])

        result = await self._run_writable(argv, self.root, GIT_S, keep, stdin)
        if result.exit_code != 0:
            raise _git_failed(result, bytes(said))

    async def _run_writable(
        self, argv: Sequence[str], place: str, timeout_s: float | None, on_output: OnOutput | None, stdin: bytes
    ) -> ExecResult:
        """In a sandbox of its own with a writable repository; one at a time, because git's own locks do not wait."""
        profile = replace(self._profile, writable_git=True, environment=self._promised)
        async with self._writing:
            if self._killed:
                await run_once(profile, UNLOCK, self.root, GIT_S, None, b"")
            self._killed = True
            result = await run_once(profile, argv, place, timeout_s, on_output, stdin)
            self._killed = result.exit_code is None
        return result

    async def exec(
        self,
        argv: Sequence[str],
        *,
        cwd: str = ".",
        timeout_s: float | None = 30,
        on_output: OnOutput | None = None,
        stdin: bytes = b"",
        writable_git: bool = False,
    ) -> ExecResult:
        """Run a program, as `Surface.exec` says."""
        files = self._opened()
        inner = normalise(cwd, root=self.root)
        files.stat(inner)
        place = self.root if inner == "." else f"{self.root}/{inner}"
        if writable_git:
            return await self._run_writable(argv, place, timeout_s, on_output, stdin)
        if self._sandbox is None:
            return await run_once(replace(self._profile, init=False), argv, place, timeout_s, on_output, stdin)
        return await self._sandbox.exec(argv, place, timeout_s, on_output, stdin)

    async def export(self, message: str) -> ExportedWork:
        """As `Surface.export`. The bundle is `work.bundle` in the session folder.

        Raises:
            SurfaceError: git failed inside, or the work is too big.
        """
        self._opened()
        if self._sandbox is not None:  # nothing changes files meanwhile, and no storm of processes leaves none for git
            sandbox, self._sandbox = self._sandbox, None
            await sandbox.close()
        words = ["export", message, f"refs/heads/{self._branch}", self._source.base_commit, *self._left_out()]
        target = self._folder / "work.bundle"
        size = 0
        with await patiently(lambda: anyio.to_thread.run_sync(target.open, "wb")) as bundle:

            def keep(data: bytes) -> bool:
                nonlocal size
                size += len(data)
                bundle.write(data)
                return size > MAX_BUNDLE_BYTES

            with doing("taking the work out of the sandbox"):
                result = await self._run_writable(["sh", "-c", EXPORT, *words], self.root, GIT_S, keep, b"")
        with await anyio.to_thread.run_sync(target.open, "rb") as bundle:
            start = bundle.read(4_096)
        if result.exit_code != 0:
            target.unlink()
            if result.stopped:
                raise SurfaceError(f"the work is a bundle of more than {MAX_BUNDLE_BYTES:,} bytes, which is too big to take out")
            raise _git_failed(result, start)
        if size == 0:
            target.unlink()
            return ExportedWork(None, self._source.base_commit)
        head = re.search(rb"^([0-9a-f]{40,64}) " + re.escape(encode(f"refs/heads/{self._branch}")) + rb"$", start, re.MULTILINE)
        if head is None:
            raise SurfaceError(f"what git gave out is no bundle of {self._branch!r}; it is kept as {str(target)!r}")
        return ExportedWork(target, head[1].decode())

    def _left_out(self) -> list[str]:
        """What is never added, as git's pathspecs: the repository's own `.gitignore` could take an exclusion back."""
        globs = [f"[{name[0]}]{name[1:]}/**" for name in OURS]  # `git add` fails on a plain name that is ignored as well
        for each in Denied(self._deny).ripgrep():
            name = each.removeprefix("!")
            name = name.removeprefix("/") if name.startswith("/") else f"**/{name}"
            globs += [name, f"{name}/**"]
        return [f":(exclude,top,glob,icase){glob}" for glob in globs]

    def world(self, cwd: str) -> World:
        """For guards."""
        place = self.root if cwd == "." else f"{self.root}/{cwd}"
        environment = {**self._environment, "PWD": place}
        return HostWorld(self._folder / "worktree", self.root, place, bwrap.HOME, environment, self._facts)

    async def close(self) -> None:
        """End every process and throw the clone away; of an exported session `base.git` stays, which its bundle builds on."""
        if self._closed:
            return
        self._closed = True
        if self._sandbox is not None:
            await self._sandbox.close()
        if self._files is not None:
            self._files.close()
        gone = ["worktree", "repo.git", *([] if (self._folder / "work.bundle").exists() else ["base.git"])]
        await remove_trees([str(self._folder / name) for name in gone])


def _git_failed(result: ExecResult, said: bytes) -> SurfaceError:
    how = f"exit {result.exit_code}" if result.exit_code is not None else "ended before it was done"
    text = said.decode("utf-8", "replace").strip()
    return SurfaceError(f"git in the sandbox failed ({how}): {text or 'it said nothing'}")


async def remove_trees(trees: Sequence[str]) -> None:
    """Delete trees that others made: of any depth, with folders that nobody may enter; what can't be deleted stays."""
    for argv in (["rm", "-rf", "--"], ["chmod", "-R", "u+rwx", "--"], ["rm", "-rf", "--"]):
        done = await patiently(partial(anyio.run_process, [*argv, *trees], check=False, stderr=DEVNULL))
        if done.returncode == 0 and argv[0] == "rm":
            return
