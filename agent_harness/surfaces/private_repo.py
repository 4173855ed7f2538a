"""A repository of the session beside the person's: its objects can be read, and nothing of its configuration is obeyed.

It borrows the person's objects, and has a copy of their index with the same modification time, so that git trusts the stat data
in it exactly as it would in place. Whatever git does here, it does to the copy.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import anyio.to_thread

from agent_harness.inert_git import PRIVATE_CONFIGS, Git
from agent_harness.surfaces.checkout import Checkout
from agent_harness.surfaces.host_facts import Config, git_home
from agent_harness.surfaces.kept import blob_id
from agent_harness.tasks import task_group

REWRITING = frozenset({b"filter", b"working-tree-encoding"})
"""Attributes by which it can differ at the same length."""
PLAIN_FILES = (b"H 100644", b"H 100755")


@dataclass(frozen=True, slots=True)
class Tracked:
    """What git knows about the files.

    Attributes:
        clean: path -> id of the blob whose bytes the file has.
        filtered: files that a filter made of their blob: they have other bytes, and the filter can make them again.
        names: every path in the index.
    """

    clean: Mapping[bytes, bytes]
    filtered: frozenset[bytes]
    names: frozenset[bytes]


class PrivateRepository:
    """Made by `create`.

    Args:
        git: the inert runner.
        folder: where it lies, in the session folder.
        checkout: the person's.
    """

    def __init__(self, git: Git, folder: Path, checkout: Checkout) -> None:
        self._git = git
        self.folder = folder
        self.checkout = checkout
        self._converts = True

    async def create(self, config: Config, home: Path | None = None, environ: Mapping[str, str] = os.environ) -> None:
        """Lay it out.

        Args:
            config: what git is configured to there: the machine's, the person's, the repository's.
            home: of the person; None = of whoever runs this.
            environ: of the person.
        """
        await anyio.to_thread.run_sync(self._create, config, home or Path.home(), environ)

    def _create(self, config: Config, home: Path, environ: Mapping[str, str]) -> None:
        theirs = self.checkout
        for name in ("objects/info", "objects/pack", "refs/heads", "info"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        (self.folder / "HEAD").write_text("ref: refs/heads/nothing\n", encoding="utf-8")
        object_format = config.get("extensions.objectformat", ("sha1",))[-1]
        (self.folder / "config").write_text(PRIVATE_CONFIGS[object_format], encoding="utf-8")
        (self.folder / "objects/info/alternates").write_bytes(os.fsencode(theirs.common_dir / "objects") + b"\n")
        with suppress(FileNotFoundError):
            shutil.copy2(theirs.git_dir / "index", self.folder / "index")
        for shared in theirs.git_dir.glob("sharedindex.*"):
            (self.folder / shared.name).symlink_to(shared)
        given = git_home(home, environ)
        attributes = _configured(config, "core.attributesfile", home, given / "attributes")
        ignores = _configured(config, "core.excludesfile", home, given / "ignore")
        parts = {
            "attributes": (Path("/etc/gitattributes"), attributes),
            "info/attributes": (theirs.common_dir / "info/attributes",),
            "excludes": (ignores,),
            "info/exclude": (theirs.common_dir / "info/exclude",),
        }
        for name, sources in parts.items():
            (self.folder / name).write_bytes(b"\n".join(map(_bytes, sources)))
        self._converts = any((self.folder / name).read_bytes().strip() for name in ("attributes", "info/attributes"))

    async def _ask(self, *args: str, stdin: bytes = b"", ok: tuple[int, ...] = (0,)) -> bytes:
        result = await self._git.run(*args, git_dir=self.folder, work_tree=self.checkout.root, stdin=stdin, ok=ok)
        return result.stdout

    async def indexed(self) -> Tracked:
        """The files of the index, told apart by its stat data: only what is not sure from that is opened."""
        answers: dict[str, bytes] = {}

        async def ask(name: str, *args: str) -> None:
            answers[name] = await self._ask(*args)

        async with task_group() as tasks:
            tasks.start_soon(ask, "changed", "diff-files", "--raw", "--no-renames", "-z")
            tasks.start_soon(ask, "index", "ls-files", "-s", "-v", "-z")
        changed = set(answers["changed"].split(b"\0")[1::2])
        found, names = await anyio.to_thread.run_sync(_read_index, answers["index"])
        for path in changed & found.keys():
            del found[path]
        return Tracked(found, frozenset(), names)

    async def unconverted(self, indexed: Tracked, nodes: Mapping[bytes, os.stat_result]) -> Tracked:
        """The same without the files that have other bytes than their blob because git converted them.

        Every length is compared: git may have been configured differently when a file was checked out.

        Args:
            indexed: what the index says.
            nodes: path -> what `lstat` says of it.
        """
        clean, names = indexed.clean, indexed.names
        if not clean:
            return indexed
        asks = self._converts or any(path.endswith(b".gitattributes") for path in names)
        attributes: Mapping[bytes, frozenset[bytes]] = await self._attributes(clean) if asks else {}
        asked = b"".join(blob + b"\n" for blob in clean.values())
        sizes = (await self._plain("cat-file", "--batch-check=%(objectsize)", "--buffer", stdin=asked)).split(b"\n")
        doubtful = {path for path in clean if attributes.get(path, frozenset()) & REWRITING}
        other = await anyio.to_thread.run_sync(self._differ, clean, sizes, nodes, doubtful)
        filtered = frozenset(path for path in other if b"filter" in attributes.get(path, frozenset()))
        return Tracked({path: blob for path, blob in clean.items() if path not in other} if other else clean, filtered, names)

    async def _plain(self, *args: str, stdin: bytes = b"") -> bytes:
        return (await self._git.run(*args, git_dir=self.folder, stdin=stdin)).stdout

    async def _attributes(self, paths: Iterable[bytes]) -> Mapping[bytes, frozenset[bytes]]:
        said = await self._ask("check-attr", "-a", "-z", "--stdin", stdin=b"".join(path + b"\0" for path in paths))
        fields = said.split(b"\0")
        found: dict[bytes, set[bytes]] = {}
        for path, name, value in zip(fields[::3], fields[1::3], fields[2::3], strict=False):
            if value not in (b"unset", b"unspecified"):
                found.setdefault(path, set()).add(name)
        return {path: frozenset(names) for path, names in found.items()}

    def _differ(
        self,
        clean: Mapping[bytes, bytes],
        sizes: Sequence[bytes],
        nodes: Mapping[bytes, os.stat_result],
        doubtful: Collection[bytes],
    ) -> set[bytes]:
        other: set[bytes] = set()
        for path, size in zip(clean, sizes, strict=False):
            found = nodes.get(path)  # none: it cannot be reached, so nothing of it is kept
            if found is not None and b"%d" % found.st_size != size:
                other.add(path)
        root = os.fsencode(self.checkout.root) + b"/"
        lengths = dict(zip(clean, sizes, strict=False)) if doubtful else {}
        for path in doubtful:
            with suppress(OSError):
                if path not in other and blob_id(root + path, int(lengths[path]), len(clean[path])) != clean[path]:
                    other.add(path)
        return other

    async def filtered(self, paths: Collection[bytes]) -> list[bytes]:
        """Which of these would go through a filter when they were added."""
        found = await self._attributes(paths)
        return sorted(path for path, names in found.items() if b"filter" in names)

    async def not_ignored(self) -> set[bytes]:
        """Files that git neither tracks nor ignores; nested repositories end in a slash."""
        return set((await self._ask("ls-files", "-o", "-z", "--exclude-standard")).split(b"\0")) - {b""}

    async def commit(self, base: str, present: Collection[bytes], gone: Collection[bytes], message: str, ref: str) -> str | None:
        """Commit these paths, as they lie in the checkout or without them, on top of the base; None when nothing differs.

        git's own conversions are applied, no filter. The ref is made to point to it.
        """
        for paths, how in ((gone, ("--force-remove",)), (present, ("--add", "--replace"))):
            names = b"".join(path + b"\0" for path in sorted(paths))
            await self._ask("update-index", *how, "-z", "--stdin", stdin=names)
        tree = (await self._git.run("write-tree", git_dir=self.folder)).text
        before = (await self._git.run("rev-parse", f"{base}^{{tree}}", git_dir=self.folder)).text
        if tree == before:
            return None
        who = {
            f"GIT_{role}_{what}": value
            for role in ("AUTHOR", "COMMITTER")
            for what, value in (("NAME", "agent-harness"), ("EMAIL", "agent-harness@localhost"))
        }
        made = await self._git.run("commit-tree", tree, "-p", base, git_dir=self.folder, stdin=message.encode(), env=who)
        await self._git.run("update-ref", ref, made.text, git_dir=self.folder)
        return made.text

    async def bundle(self, base: str, ref: str, to: Path) -> None:
        """Write what the ref has on top of the base."""
        await self._git.run("bundle", "create", "-q", str(to), f"{base}..{ref}", git_dir=self.folder)

    async def blobs(self, ids: Collection[bytes], to: Path) -> dict[bytes, tuple[int, int]]:
        """Write the bytes of blobs into one file; id -> offset and size there. Those that are gone are not in it."""
        asked = b"".join(each + b"\n" for each in sorted(ids))
        await self._git.run("cat-file", "--batch", "--buffer", git_dir=self.folder, stdin=asked, stdout_file=to, timeout_s=600)
        return await anyio.to_thread.run_sync(_read_batch, to)

    async def is_clean(self, base: str) -> bool:
        """Whether index and files are those of that commit, and nothing untracked lies about that is not ignored."""
        await self._ask("update-index", "-q", "--refresh", ok=(0, 1))
        if await self._ask("diff-files", "--raw", "-z") or await self.not_ignored():
            return False
        staged = await self._git.run("write-tree", git_dir=self.folder, ok=(0, 128))
        wanted = await self._git.run("rev-parse", f"{base}^{{tree}}", git_dir=self.folder)
        return staged.code == 0 and staged.text == wanted.text

    async def differences(self, base: str) -> tuple[set[bytes], set[bytes]]:
        """Tracked files that are not as in that commit, in the index or on the disk; and what `not_ignored` gives."""
        changed: set[bytes] = set()
        untracked: set[bytes] = set()
        await self._ask("update-index", "-q", "--refresh", ok=(0, 1))

        async def on_disk() -> None:
            changed.update((await self._ask("diff-files", "--name-only", "-z")).split(b"\0"))

        async def unknown() -> None:
            untracked.update(await self.not_ignored())

        async with task_group() as tasks:
            tasks.start_soon(on_disk)
            tasks.start_soon(unknown)
            staged = await self._git.run("write-tree", git_dir=self.folder, ok=(0, 128))
            if staged.code == 0:  # else there are conflicts, which differ on the disk as well
                changed.update((await self._plain("diff-tree", "-r", "--name-only", "-z", base, staged.text)).split(b"\0"))
        return changed - {b""}, untracked

    async def contains(self, commit: str, others: Collection[str]) -> bool:
        """Whether one of these commits is that commit, or was built on it."""
        for other in others:
            asked = await self._git.run("merge-base", "--is-ancestor", commit, other, git_dir=self.folder, ok=(0, 1, 128))
            if asked.code == 0:
                return True
        return False


def _read_index(listing: bytes) -> tuple[dict[bytes, bytes], frozenset[bytes]]:
    """Blobs of the files that git would compare by their stat data, and every path.

    Entries that git was told not to look at are not among the first: their files may have any bytes.
    """
    found: dict[bytes, bytes] = {}
    names: list[bytes] = []
    for line in listing.split(b"\0"):
        about, _, path = line.partition(b"\t")  # H 100644 <blob id> 0
        if about[:8] in PLAIN_FILES and about[-2:] == b" 0":
            found[path] = about[9:-2]
        names.append(path)
    return found, frozenset(names)


def _configured(config: Config, key: str, home: Path, default: Path) -> Path:
    value = config.get(key, ("",))[-1]
    if not value:
        return default
    return home / value.removeprefix("~/") if value.startswith("~/") else Path("/", value)


def _read_batch(answers: Path) -> dict[bytes, tuple[int, int]]:
    """Where each blob lies in the answers of `cat-file --batch`."""
    found: dict[bytes, tuple[int, int]] = {}
    with answers.open("rb") as file:
        while header := file.readline():
            words = header.split()
            if len(words) == 3 and words[1] == b"blob":
                found[words[0]] = (file.tell(), int(words[2]))
            if len(words) == 3:
                file.seek(int(words[2]) + 1, os.SEEK_CUR)
    return found


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
