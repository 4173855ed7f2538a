"""The `local` surface: a disposable clone in one long-lived bubblewrap on this machine, without network or credentials."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import anyio.to_thread

from agent_harness.errors import SurfaceError, SurfaceLost
from agent_harness.inert_git import Git
from agent_harness.surfaces import bwrap, clone
from agent_harness.surfaces.base import Capabilities, Chunk, Entry, ExecResult, ExportedWork, FileStat, OnOutput
from agent_harness.surfaces.clone import CloneSource
from agent_harness.surfaces.files import HostFiles
from agent_harness.surfaces.paths import Denied, normalise
from agent_harness.surfaces.sandbox import Sandbox, run_once
from agent_harness.surfaces.world import HostWorld
from agent_harness.tasks import task_group
from agent_harness.world import GitFacts, World

__all__ = ["CloneSource", "LocalSurface"]

MAX_BUNDLE_BYTES = 2 << 30  # what a forge takes in one push
GIT_S = 600
OURS = (".agent", ".agent-traces")
IDENTITY = ("-c", "user.name=agent-harness", "-c", "user.email=agent-harness@localhost")
SAFE = ("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "commit.gpgSign=false", "-c", "gc.auto=0")


class LocalSurface:
    """Clones, checks out inside the sandbox, and throws everything away at the end.

    Args:
        folder: the session folder; everything made here lies in it.
        git: the inert runner.
        source: what to clone.
        branch: the session's branch.
        deny: extra denied globs.
        say: shows progress.
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
        say: Callable[[str], None] = lambda _text: None,
    ) -> None:
        self._folder = folder
        self._git = git
        self._source = source
        self._branch = branch
        self._deny = tuple(deny)
        self._say = say
        self.host_root: Path | None = folder / "worktree"
        self._profile = bwrap.Profile(folder / "worktree", folder / "repo.git")
        self._sandbox: Sandbox | None = None
        self._files: HostFiles | None = None
        self._facts = GitFacts(branch, branch, source.default_branch)
        self._closed = False

    async def open(self) -> None:
        """Clone, check out, start."""
        base, repository, worktree = self._folder / "base.git", self._folder / "repo.git", self._folder / "worktree"
        worktree.mkdir(mode=0o700)
        denied = Denied(self._deny)
        await clone.fetch(self._git, self._source, base)
        hidden = await clone.copy(self._git, base, repository, self._source.base_commit, denied)
        clone.add_worktree(repository, worktree, self._branch, self._source.base_commit)
        exclude = [*(f"/{name}/" for name in OURS), *denied.gitignore()]
        (repository / "info").mkdir(exist_ok=True)
        (repository / "info" / "exclude").write_text("".join(f"{line}\n" for line in exclude), encoding="utf-8")
        for name in OURS:
            (worktree / name).mkdir(exist_ok=True)
            (worktree / name / ".gitignore").write_text("*\n", encoding="utf-8")
        (worktree / ".agent" / "tmp").mkdir(exist_ok=True)
        async with task_group() as tasks:
            tasks.start_soon(self._start)
            tasks.start_soon(self._read_facts, repository)
            await self._check_out(hidden)
        self._files = HostFiles(worktree, self._deny, seen_as=self.root)

    async def _start(self) -> None:
        self._sandbox = await Sandbox.start(self._profile)

    async def _check_out(self, hidden: Sequence[str]) -> None:
        """Inside, so that no attribute or filter of the repository ever acts on this machine."""
        if not hidden:
            await self._inside(["git", *SAFE, "reset", "-q", "--hard"])
            return
        names = b"".join(os.fsencode(path) + b"\0" for path in hidden)
        script = (
            'git read-tree HEAD && git update-index -z --skip-worktree --stdin && git ls-files -z -v | sed -z -n "s/^H //p" '
            "| git checkout-index -q -u -z --stdin"
        )
        await self._inside(["sh", "-c", script], stdin=names)

    async def _inside(self, argv: Sequence[str], *, stdin: bytes = b"", on_output: OnOutput | None = None) -> None:
        """Run one of our own git commands with a writable repository.

        Raises:
            SurfaceError: it failed.
        """
        said = bytearray()

        def keep(data: bytes) -> None:
            said.extend(data[: max(0, 4_096 - len(said))])

        result = await run_once(self._writable(), argv, self.root, GIT_S, on_output or keep, stdin)
        if result.exit_code != 0:
            text = said.decode("utf-8", "replace").strip()
            raise SurfaceError(f"git in the sandbox failed (exit {result.exit_code}): {text or argv[0]}")

    def _writable(self) -> bwrap.Profile:
        return replace(self._profile, writable_git=True)

    async def _read_facts(self, repository: Path) -> None:
        heads = await self._git.run("for-each-ref", "--format=%(refname:short)", "refs/heads", git_dir=repository)
        config: dict[str, list[str]] = {}
        listing = await self._git.run("config", "--list", "--local", "-z", git_dir=repository)
        for entry in listing.text.split("\0"):
            key, _, value = entry.partition("\n")
            if key:
                config.setdefault(key, []).append(value)
        remotes = {
            key.split(".")[1]: values[-1] for key, values in config.items() if key.startswith("remote.") and key.endswith(".url")
        }
        self._facts = GitFacts(
            self._branch, self._branch, self._source.default_branch, remotes, config, tuple(heads.text.split())
        )

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
            return await run_once(self._writable(), argv, place, timeout_s, on_output, stdin)
        if self._sandbox is None:
            return await run_once(self._profile, argv, place, timeout_s, on_output, stdin)
        return await self._sandbox.exec(argv, place, timeout_s, on_output, stdin)

    def _opened(self) -> HostFiles:
        if self._files is None or self._closed:
            raise SurfaceLost("the sandbox is closed")
        return self._files

    async def read(self, path: str, offset: int = 0, size: int | None = None) -> Chunk:
        """Bytes of a file."""
        return self._opened().read(path, offset, size)

    async def write(self, path: str, data: bytes, *, mode: int | None = None, create: bool = False) -> None:
        """Replace or create a file."""
        self._opened().write(path, data, mode=mode, create=create)

    async def stat(self, path: str) -> FileStat:
        """Of a path."""
        return self._opened().stat(path)

    async def list(self, path: str) -> list[Entry]:
        """Names in a folder."""
        return self._opened().list(path)

    async def export(self, message: str) -> ExportedWork:
        """Commit the rest and bundle the branch out."""
        self._opened()
        script = (
            'set -e; git="git $1"; $git add -A; $git diff --cached --quiet || $git commit -q --no-verify -m "$2" >&2; '
            '[ "$(git rev-parse "$3^{tree}")" = "$(git rev-parse "$4^{tree}")" ] || git bundle create -q - "$4..$3"'
        )
        flags = " ".join([*SAFE, *IDENTITY])
        argv = ["sh", "-c", script, "export", flags, message, f"refs/heads/{self._branch}", self._source.base_commit]
        target = self._folder / "work.bundle"
        size = 0
        with target.open("wb") as bundle:

            def keep(data: bytes) -> bool:
                nonlocal size
                size += len(data)
                bundle.write(data)
                return size > MAX_BUNDLE_BYTES

            await self._inside(argv, on_output=keep)
        if size == 0:
            target.unlink()
            return ExportedWork(None, self._source.base_commit)
        with target.open("rb") as bundle:
            head = next((line for line in bundle.read(4_096).splitlines() if line.endswith(self._branch.encode())), b"")
        return ExportedWork(target, head.split(b" ")[0].decode("ascii", "replace"))

    def world(self, cwd: str) -> World:
        """For guards."""
        place = self.root if cwd == "." else f"{self.root}/{cwd}"
        return HostWorld(self._folder / "worktree", self.root, place, bwrap.HOME, self._environment(), self._facts)

    def _environment(self) -> Mapping[str, str]:
        return {"HOME": bwrap.HOME, "PWD": self.root, "TMPDIR": f"{self.root}/.agent/tmp"}

    async def close(self) -> None:
        """End every process and throw the clone away."""
        if self._closed:
            return
        self._closed = True
        if self._sandbox is not None:
            await self._sandbox.close()
        if self._files is not None:
            self._files.close()
        for name in ("worktree", "repo.git"):
            await anyio.to_thread.run_sync(lambda name=name: shutil.rmtree(self._folder / name, ignore_errors=True))
