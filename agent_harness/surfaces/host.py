"""The `host` surface: the person's own checkout, changed in place. Their repository is only read; a snapshot undoes all of it."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import anyio.to_thread

from agent_harness.errors import PublishError, ToolFailed
from agent_harness.events import Event, Notice
from agent_harness.inert_git import Git
from agent_harness.progress import doing
from agent_harness.surfaces.base import Capabilities, ExecResult, ExportedWork, OnOutput
from agent_harness.surfaces.checkout import Checkout, Hold
from agent_harness.surfaces.files import HostFiles
from agent_harness.surfaces.host_facts import HostFacts
from agent_harness.surfaces.host_profile import HostProfile, to_mask, without_credentials
from agent_harness.surfaces.local import OURS, TEMPORARY
from agent_harness.surfaces.on_disk import OnDisk
from agent_harness.surfaces.paths import Denied, decode, encode, normalise, shown
from agent_harness.surfaces.plain import plain_environment, run_plain
from agent_harness.surfaces.private_repo import PrivateRepository, Tracked
from agent_harness.surfaces.sandbox import Sandbox, run_once
from agent_harness.surfaces.snapshot import Snapshot, describe_left_out, fits, own_files, take
from agent_harness.surfaces.tree import Tree, walk, without_collecting
from agent_harness.surfaces.watch import NestedWatch, RepositoryWatch
from agent_harness.surfaces.world import HostWorld
from agent_harness.tasks import task_group
from agent_harness.world import World

REPOSITORY, SNAPSHOT = "base.git", "snapshot"
"""In the session folder; publishing builds on the first, `restore` reads both."""
NAMED = 12  # paths that a message names


@dataclass(frozen=True)
class Place:
    """A checkout that a session may work in.

    Attributes:
        hold: keeps every other session out of it.
        facts: how it was when it was looked at.
        home: of the person.
        private: folders that no command may see: where sessions are kept.
        environ: of the person.
    """

    checkout: Checkout
    hold: Hold
    facts: HostFacts
    home: Path
    private: tuple[Path, ...]
    environ: Mapping[str, str] = field(repr=False)


class HostSurface(OnDisk):
    """Snapshots, lets the work happen in place, and says at the end what has changed.

    Args:
        place: the checkout; its hold is given back at the end.
        folder: the session folder.
        git: the inert runner.
        branch: the session's branch; it exists in the private repository only.
        default_branch: which nobody may push to.
        deny: extra denied globs.
        confined: commands run in bubblewrap.
        proposes: the work is also exported as a commit on top of HEAD.
        emit: records an event.
    """

    name = "host"
    capabilities = Capabilities(exec=True, network=True, git=True, commits=False)

    def __init__(
        self,
        place: Place,
        folder: Path,
        git: Git,
        branch: str,
        default_branch: str,
        *,
        deny: Sequence[str] = (),
        confined: bool = True,
        proposes: bool = False,
        emit: Callable[[Event], object] = lambda _event: None,
    ) -> None:
        self._place = place
        self._folder = folder
        self._branch = branch
        self._deny = tuple(deny)
        self._confined = confined
        self._proposes = proposes
        self._emit = emit
        self._checkout = place.checkout
        self.root = str(place.checkout.root)
        self.host_root: Path | None = place.checkout.root
        self._facts = place.facts.for_guards(branch, default_branch, confined=confined)
        self._repository = PrivateRepository(git, folder / REPOSITORY, place.checkout)
        empty = folder / "empty", folder / "empty.d"
        self._profile = HostProfile(place.checkout, place.home, place.private, empty, place.environ)
        self._environment: Mapping[str, str] = {}
        self._tracked = Tracked({}, frozenset(), frozenset())
        self._snapshot: Snapshot | None = None
        self._sandbox: Sandbox | None = None
        self._watches: tuple[RepositoryWatch, NestedWatch] | None = None

    async def open(self) -> None:
        """Snapshot, then start the sandbox.

        Raises:
            ConfigError: there is no room for the snapshot, or too much to mask.
            SurfaceError: the sandbox failed.
            GitFailed: the index could not be read.
        """
        with doing("taking a snapshot of the checkout"), without_collecting():
            tree = await self._take_snapshot()
        self._files = await anyio.to_thread.run_sync(self._settle)
        self._watches = await anyio.to_thread.run_sync(self._watch, tree)
        if self._confined:
            await anyio.to_thread.run_sync(self._make_masks, tree)
            self._environment = self._profile.variables()
            with doing("starting the sandbox"):
                self._sandbox = await Sandbox.start(self._profile, cwd=self.root)
        else:
            self._environment = plain_environment(self._place.environ, self.root)

    async def _take_snapshot(self) -> Tree:
        root = self._checkout.root
        await self._repository.create(self._place.facts.whole, self._place.home, self._place.environ)
        looked: list[Tree] = []

        async def look() -> None:
            looked.append(await anyio.to_thread.run_sync(walk, root))

        async with task_group() as tasks:
            tasks.start_soon(look)
            indexed = await self._repository.indexed()
        (tree,) = looked
        self._tracked = await self._repository.unconverted(indexed, tree.nodes)
        clean = self._tracked.clean
        own = own_files(tree, clean)
        optional = () if fits(own) else await self._optional(own)
        self._snapshot = await anyio.to_thread.run_sync(take, root, tree, clean, optional, self._folder / SNAPSHOT)
        if self._snapshot.left_out:
            self._emit(Notice("snapshot", describe_left_out(self._snapshot.left_out)))
        return tree

    async def _optional(self, own: Collection[bytes]) -> set[bytes]:
        """What a snapshot may leave out when it is large."""
        kept = self._tracked.names | await self._repository.not_ignored()
        return {path for path in own if path not in kept} | self._tracked.filtered

    def _settle(self) -> HostFiles:
        """Our own folder in the worktree; a repository may have laid something else there, which then stays as it is."""
        files = HostFiles(self._checkout.root, self._deny)
        for name in (OURS[0], TEMPORARY):
            with suppress(ToolFailed):
                files.write(f"{name}/.gitignore", b"*\n", create=True)
        return files

    def _watch(self, tree: Tree) -> tuple[RepositoryWatch, NestedWatch]:
        return RepositoryWatch(self._checkout), NestedWatch(self._checkout.root, tree)

    def _make_masks(self, tree: Tree) -> None:
        file, folder = self._profile.empty
        file.touch(mode=0o444)
        folder.mkdir(mode=0o555, exist_ok=True)
        clean = without_credentials((self._checkout.common_dir / "config").read_bytes())
        config = None
        if clean is not None:
            config = self._folder / "config-without-credentials"
            config.write_bytes(clean)
        denied = to_mask(tree, Denied(self._deny))
        self._profile = replace(self._profile, denied=denied, read_only=tuple(tree.git_entries), config=config)

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
        """Run a program, as `Surface.exec` says; nothing here may write `.git`."""
        files = self._opened()
        if writable_git:
            raise ToolFailed("Nothing may write .git here: this is a person's own checkout.")
        inner = normalise(cwd, root=self.root)
        files.stat(inner)
        place = self.root if inner == "." else f"{self.root}/{inner}"
        self._look("changed between two commands, by somebody else")
        result = await self._run(argv, place, timeout_s, on_output, stdin)
        remarks = self._look("changed while a command ran")
        return replace(result, remarks=(*result.remarks, *remarks)) if remarks else result

    async def _run(
        self, argv: Sequence[str], place: str, timeout_s: float | None, on_output: OnOutput | None, stdin: bytes
    ) -> ExecResult:
        if not self._confined:
            return await run_plain(argv, Path(os.fsdecode(encode(place))), self._environment, timeout_s, on_output, stdin)
        if self._sandbox is None:
            return await run_once(replace(self._profile, init=False), argv, place, timeout_s, on_output, stdin)
        return await self._sandbox.exec(argv, place, timeout_s, on_output, stdin)

    def _look(self, when: str) -> list[str]:
        """What has changed of what must not; for the record and for whoever is told the result."""
        if self._watches is None:
            return []
        repository, nested = self._watches
        remarks = [f"{path} {when}; the person is told" for path in repository.changed()]
        remarks += [
            f"a new git repository lies in {shown(decode(path))}; whoever runs git there obeys its configuration"
            for path in nested.look()
        ]
        for remark in remarks:
            self._emit(Notice("repository_changed", remark))
        return remarks

    async def export(self, message: str) -> ExportedWork:
        """What was changed in place; with a proposal also a commit of it on top of HEAD, as `work.bundle`.

        Raises:
            PublishError: a changed file would go through a filter, which nobody runs here.
            GitFailed: the commit could not be built.
        """
        self._opened()
        assert self._snapshot is not None
        tree = await self._walk_again()
        changed = await anyio.to_thread.run_sync(self._snapshot.changed, self._checkout.root, tree)
        names = {path: found for path, found in changed.items() if path.partition(b"/")[0].decode("latin-1") not in OURS}
        in_place = tuple(sorted(decode(path) for path, found in names.items() if self._is_file(path, found)))
        base = self._place.facts.head
        if not self._proposes or not in_place:
            return ExportedWork(None, base, in_place)
        present, gone = await self._to_commit(names, tree)
        ref = f"refs/heads/{self._branch}"
        head = await self._repository.commit(base, present, gone, message, ref)
        if head is None:
            return ExportedWork(None, base, in_place)
        bundle = self._folder / "work.bundle"
        await self._repository.bundle(base, ref, bundle)
        return ExportedWork(bundle, head, in_place)

    def _is_file(self, path: bytes, found: os.stat_result | None) -> bool:
        assert self._snapshot is not None
        before = self._snapshot.entries.get(path)
        return (before is not None and before.is_file) or (found is not None and not _is_folder(found))

    async def _walk_again(self) -> Tree:
        assert self._snapshot is not None
        return await anyio.to_thread.run_sync(walk, self._checkout.root, self._snapshot.git_entries)

    async def _to_commit(
        self, names: Mapping[bytes, os.stat_result | None], tree: Tree
    ) -> tuple[Collection[bytes], Collection[bytes]]:
        """Of what was changed: the files that belong in the commit, and those that it takes away."""
        denied = Denied(self._deny)
        inside = tuple(path + b"/" for path in tree.repositories() if path)
        belongs = self._tracked.names | await self._repository.not_ignored()
        fit = {path for path in names if path in belongs and not path.startswith(inside) and not denied(decode(path))}
        gone = {path for path in fit if (found := names[path]) is None or _is_folder(found)}
        present = fit - gone
        filtered = await self._repository.filtered(present)
        if filtered:
            raise PublishError(
                f"{_some(filtered)} would go through a filter that git is configured to run, and the harness runs none; the "
                "changes are in your checkout: commit them yourself, or use --surface local"
            )
        return present, gone

    def world(self, cwd: str) -> World:
        """For guards."""
        place = self.root if cwd == "." else f"{self.root}/{cwd}"
        environment = {**self._environment, "PWD": place}
        return HostWorld(self._checkout.root, self.root, place, str(self._place.home), environment, self._facts)

    async def close(self) -> None:
        """End every process, write down what the session leaves in the checkout, and let others in."""
        if self._closed:
            return
        self._closed = True
        try:
            if self._sandbox is not None:
                await self._sandbox.close()
            if self._files is not None:
                self._files.close()
            if self._snapshot is not None:
                await self._finish(self._snapshot)
        finally:
            self._place.hold.release()

    async def _finish(self, snapshot: Snapshot) -> None:
        root = self._checkout.root
        if TEMPORARY.encode() not in snapshot.entries:
            await anyio.to_thread.run_sync(_remove_temporary, root)
        self._look("changed")
        tree = await self._walk_again()
        if self._watches is not None:
            for path in self._watches[1].all_new(tree):
                self._emit(Notice("repository_changed", f"the session left a new git repository in {shown(decode(path))}"))
        await anyio.to_thread.run_sync(snapshot.record_end, root, tree)
        changed = await anyio.to_thread.run_sync(snapshot.changed, root, tree)
        files = sorted(
            path
            for path, found in changed.items()
            if self._is_file(path, found) and path.partition(b"/")[0].decode("latin-1") not in OURS
        )
        if files:
            count = f"{len(files):,} file{'s' * (len(files) != 1)}"
            self._emit(
                Notice(
                    "in_place",
                    f"{count} changed in {self.root!r}: {_some(files)}. To undo it: agent-harness restore {self._folder.name}",
                )
            )


def _remove_temporary(root: Path) -> None:
    """By a descriptor: a command may have put a link in the place of our folder."""
    folder, _, name = TEMPORARY.partition("/")
    with suppress(OSError):
        fd = os.open(root / folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            shutil.rmtree(name, dir_fd=fd)
        finally:
            os.close(fd)


def _is_folder(found: os.stat_result) -> bool:
    return stat.S_ISDIR(found.st_mode)


def _some(paths: Sequence[bytes]) -> str:
    more = f" and {len(paths) - NAMED:,} more" if len(paths) > NAMED else ""
    return ", ".join(shown(decode(path)) for path in paths[:NAMED]) + more
