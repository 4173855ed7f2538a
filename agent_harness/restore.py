"""`restore SESSION`: gives a checkout back as it was before a session worked in it. Asks nothing of the network.

What lies there now is kept first, so that a restore can itself be undone. Only what the session changed is touched; what a person
changed elsewhere since then stays. A session that was killed could not write down what it left: then everything that differs from
the start counts as its work.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread

from agent_harness.archive import StoredSession, find_session, is_running
from agent_harness.errors import ConfigError
from agent_harness.in_place import who_works_in
from agent_harness.inert_git import Git
from agent_harness.surfaces.checkout import Checkout, Hold, HoldTaken, find_checkout
from agent_harness.surfaces.giving_back import GivenBack, GivingBack
from agent_harness.surfaces.host import REPOSITORY, SNAPSHOT
from agent_harness.surfaces.kept import GONE, Kept
from agent_harness.surfaces.paths import decode, shown
from agent_harness.surfaces.private_repo import PrivateRepository
from agent_harness.surfaces.snapshot import Snapshot, differs, is_end, load, load_end, take_part
from agent_harness.surfaces.tree import Tree, walk

SHOWN = 20  # paths that each part of the answer names
KEPT = "before-restore-"


@dataclass
class Plan:
    """What is to be done.

    Attributes:
        wanted: path -> what is to be there.
        now: the same paths -> what is there.
        theirs: paths that a person changed after the session, which are left alone.
        again: paths that the session changed and a person changed after it: given back, and kept.
    """

    wanted: dict[bytes, Kept] = field(default_factory=dict[bytes, Kept])
    now: dict[bytes, os.stat_result | None] = field(default_factory=dict[bytes, "os.stat_result | None"])
    theirs: list[bytes] = field(default_factory=list[bytes])
    again: list[bytes] = field(default_factory=list[bytes])


def restore_session(home: Path, wanted: str, *, undo: bool) -> int:
    """Restore, or undo the last restore, and say on stdout what was done; returns the exit code.

    Raises:
        ConfigError: no such session, no snapshot, no checkout any more, or a session still works there; nothing was done.
        HarnessError: git's objects could not be read; nothing was done.
    """
    stored = find_session(home, wanted)
    if is_running(stored):
        raise ConfigError(f"session {stored.id} is still running; end it first, then restore")
    snapshot = load(stored.folder / SNAPSHOT)
    if snapshot is None:
        raise ConfigError(_why_none(stored))
    root = Path(stored.task("repo"))
    if not root.is_dir():
        raise ConfigError(f"the checkout {str(root)!r} of session {stored.id} is gone, so there is nothing to restore it into")
    checkout = find_checkout(root)
    try:
        hold = Hold(checkout.root, "restoring")
    except HoldTaken as taken:
        raise ConfigError(f"{who_works_in(checkout.root, home)} {taken}") from taken
    try:
        restoring = _Restoring(stored, snapshot, checkout)
        return anyio.run(restoring.undo if undo else restoring.run)
    finally:
        hold.release()


def _why_none(stored: StoredSession) -> str:
    if stored.started["surface"] != "host":
        where = stored.started["surface"]
        return f"session {stored.id} worked on the surface {where!r}, not in your checkout: there is nothing to restore"
    return f"session {stored.id} has no snapshot: it ended before it could change anything"


class _Restoring:
    def __init__(self, stored: StoredSession, snapshot: Snapshot, checkout: Checkout) -> None:
        self._stored = stored
        self._snapshot = snapshot
        self._checkout = checkout
        self._root = checkout.root
        self._end = load_end(snapshot.folder)

    async def run(self) -> int:
        tree = await anyio.to_thread.run_sync(self._look)
        plan = await anyio.to_thread.run_sync(self._plan, tree)
        if self._end is None:
            _say("The session was broken off, so everything that differs from its start counts as its work.")
        if plan.theirs:
            _say_paths("changed after the session, left as it is", plan.theirs)
        missing = self._gone()
        if missing:
            _say_paths(
                "a repository that was here is gone, and its .git was never copied; if it lies elsewhere, move it back", missing
            )
        if not plan.wanted:
            _say(f"nothing to do: {str(self._root)!r} is as it was before session {self._stored.id}")
            return 1 if missing else 0
        kept = await anyio.to_thread.run_sync(self._keep, plan)
        done = await self._give_back(plan, self._snapshot.content)
        if plan.again:
            _say_paths("you had changed it since the session; given back, your version is kept", plan.again)
        return self._report(done, kept) or (1 if missing else 0)

    def _gone(self) -> list[bytes]:
        base = os.fsencode(self._root) + b"/"
        return [path for path in self._snapshot.git_entries if not os.path.lexists(base + path)]

    async def undo(self) -> int:
        """Put back what the last restore found."""
        kept = _last_kept(self._stored.folder)
        part = None if kept is None else load(kept)
        if kept is None or part is None:
            raise ConfigError(f"session {self._stored.id} was not restored, so there is nothing to undo")
        tree = await anyio.to_thread.run_sync(self._look)
        now = {path: tree.nodes.get(path) for path in part.entries}
        later = await anyio.to_thread.run_sync(self._keep_later, now)
        done = await self._give_back(Plan(part.entries, now), part.content)
        if _say_failed(done):
            _say(f"the rest of what the restore found is still kept in {str(kept)!r}")
            return 1
        await anyio.to_thread.run_sync(partial(shutil.rmtree, kept))
        _say(f"{len(now):,} path{'s' * (len(now) != 1)} of {str(self._root)!r} put back to what the restore found")
        if later:
            _say_paths("you had changed it since the restore; your version is kept, another --undo gives it back", later)
        return 0

    def _keep_later(self, now: Mapping[bytes, os.stat_result | None]) -> list[bytes]:
        """Keep what is not as the restore left it: somebody worked on it since."""
        before, base = self._snapshot, os.fsencode(self._root) + b"/"
        changed = {p: f for p, f in now.items() if differs(base + p, before.entries.get(p, GONE), f, before.content)}
        if changed:
            self._keep(Plan(now=changed))
        return list(changed)

    def _look(self) -> Tree:
        """A folder that the session closed to everybody is opened: what it holds has to go."""
        while True:
            tree = walk(self._root, self._snapshot.git_entries)
            opened = [path for path in tree.unreadable if path and self._open(path)]
            if not opened:
                return tree

    def _open(self, path: bytes) -> bool:
        where = os.fsencode(self._root) + b"/" + path
        with suppress(OSError):
            mode, before = os.lstat(where).st_mode, self._snapshot.entries.get(path)
            if mode & 0o700 != 0o700 and (before is None or before.mode != mode):
                os.chmod(where, (mode & 0o7777) | 0o700)  # noqa: PTH101 - bytes
                return True
        return False

    def _plan(self, tree: Tree) -> Plan:
        plan = Plan()
        base = os.fsencode(self._root) + b"/"
        moved = [entry for entry in tree.git_entries if entry not in self._snapshot.git_entries] if self._gone() else []
        kept_repositories = tuple(entry + b"/" for entry in moved)
        for path, found in self._snapshot.changed(self._root, tree).items():
            end = None if self._end is None else self._end.get(path)
            if path in moved or path.startswith(kept_repositories):
                continue  # perhaps the repository that is gone from its place: the only copy of its history
            if self._end is not None and end is None:
                plan.theirs.append(path)
                continue
            if end is not None and not is_end(base + path, end, found):
                plan.again.append(path)
            plan.wanted[path] = self._snapshot.entries.get(path, GONE)
            plan.now[path] = found
        self._with_folders(plan, tree)
        return plan

    def _with_folders(self, plan: Plan, tree: Tree) -> None:
        """A file that is given back needs its folders, whoever removed them."""
        for path in [path for path, wanted in plan.wanted.items() if wanted.mode]:
            folder = path.rpartition(b"/")[0]
            while folder and folder not in plan.wanted and folder not in tree.nodes and folder in self._snapshot.entries:
                plan.wanted[folder], plan.now[folder] = self._snapshot.entries[folder], None
                folder = folder.rpartition(b"/")[0]

    def _keep(self, plan: Plan) -> Path:
        numbers = [int(path.name.removeprefix(KEPT)) for path in self._stored.folder.glob(f"{KEPT}[0-9]*")]
        folder = self._stored.folder / f"{KEPT}{max(numbers, default=0) + 1}"
        take_part(self._root, plan.now, folder)
        return folder

    async def _give_back(self, plan: Plan, content: Path) -> GivenBack:
        blobs: Mapping[bytes, tuple[int, int]] = {}
        file = self._stored.folder / "blobs"
        ids = {wanted.blob for wanted in plan.wanted.values() if wanted.blob}
        try:
            if ids:
                git = Git(self._stored.folder, str, {**os.environ, "PATH": self._path_outside()})
                repository = PrivateRepository(git, self._stored.folder / REPOSITORY, self._checkout)
                blobs = await repository.blobs(ids, file)
            giving = GivingBack(self._root, plan.wanted, plan.now, content, (file, blobs))
            return await anyio.to_thread.run_sync(giving.run)
        finally:
            file.unlink(missing_ok=True)

    def _path_outside(self) -> str:
        """PATH without folders that the agent could write to: a `git` in one would run with the person's rights."""
        folders = os.environ.get("PATH", "").split(":")
        return ":".join(each for each in folders if not Path(each).resolve().is_relative_to(self._root)) or os.defpath

    def _report(self, done: GivenBack, kept: Path) -> int:
        _say_paths("given back", done.written)
        _say_paths("removed", done.removed)
        failed = _say_failed(done)
        session = self._stored.id
        _say(f"what was there before this is kept in {str(kept)!r}; to get it back: agent-harness restore {session} --undo")
        if not failed:
            _say(f"{str(self._root)!r} is as session {session} found it; HEAD, index and branches were never touched")
        return 1 if failed else 0


def _last_kept(folder: Path) -> Path | None:
    found = sorted(folder.glob(f"{KEPT}[0-9]*"), key=lambda path: int(path.name.removeprefix(KEPT)))
    return found[-1] if found else None


def _say_failed(done: GivenBack) -> bool:
    for path, why in sorted(done.failed.items())[:SHOWN]:
        _say(f"NOT given back: {shown(decode(path))}: {why}")
    if len(done.failed) > SHOWN:
        _say(f"NOT given back: {len(done.failed) - SHOWN:,} more")
    return bool(done.failed)


def _say_paths(what: str, paths: Sequence[bytes]) -> None:
    for path in sorted(paths)[:SHOWN]:
        _say(f"{what}: {shown(decode(path))}")
    if len(paths) > SHOWN:
        _say(f"{what}: {len(paths) - SHOWN:,} more")


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
