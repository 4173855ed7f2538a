"""The hostile-bundle kit: twelve bundles through the whole publisher, and the honest one; none of the twelve reaches the remote.

Each is first given to plain git (`fetch`), the way a naive host would take it. What plain git takes as well is marked.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from agent_harness.errors import PublishError
from agent_harness.inert_git import Git, Transport
from agent_harness.publishing.local_forge import LocalForge
from agent_harness.publishing.publisher import Publisher
from agent_harness.surfaces.base import ExportedWork
from agent_harness.task import Task
from tests.unit.publishing.reports import report
from tests.unit.publishing.repos import BRANCH, REF, Origin, forged_bundle, git, object_id, tree

pytestmark = pytest.mark.anyio

BLOB = ("blob", b"x\n")
OID = object_id(*BLOB)
INNER = tree(("100644", "config", OID))
MODULES = ("blob", b'[submodule "a"]\n\tpath = a\n\turl = --upload-pack=touch\n')
Make = Callable[[Origin, Path], None]


@dataclass(frozen=True)
class Hostile:
    """How it is made, whether plain git takes it, and the reasons for which it may be refused here."""

    make: Make
    taken_by_plain_git: bool
    reasons: tuple[str, ...]


def forged(*entries: tuple[str, str, str], more: tuple[tuple[str, bytes], ...] = (BLOB,), parent: str | None = None) -> Make:
    def make(origin: Origin, bundle: Path) -> None:
        forged_bundle(bundle, origin.base, tree(*entries), *more, parent=parent)

    return make


def spoiled(how: Callable[[bytes], bytes]) -> Make:
    def make(origin: Origin, bundle: Path) -> None:
        origin.commit({"a.py": "two\n"})
        bundle.write_bytes(how(origin.bundle(bundle).read_bytes()))

    return make


def gitlink(origin: Origin, bundle: Path) -> None:
    git("update-index", "--add", "--cacheinfo", f"160000,{'7' * 40},vendor", cwd=origin.clone)
    git("commit", "-q", "-m", "gitlink", cwd=origin.clone)
    origin.bundle(bundle)


def zeros(origin: Origin, bundle: Path) -> None:
    with (origin.clone / "zeros").open("wb") as file:
        os.truncate(file.fileno(), (100 << 20) + 1)
    origin.commit({})
    assert origin.bundle(bundle).stat().st_size < 1 << 20, "a huge file in a tiny bundle"


def two_refs(data: bytes) -> bytes:
    line = re.search(rb"([0-9a-f]{40}) " + REF.encode(), data)
    assert line is not None
    return data.replace(b"\n\n", b"\n" + line[1] + b" refs/heads/main\n\n", 1)


REJECTED = ("bundle_rejected", "bundle_incomplete")
TWELVE = {
    "an entry named .git": Hostile(
        forged(("40000", ".git", object_id("tree", INNER)), more=(BLOB, ("tree", INNER))), True, REJECTED
    ),
    "an entry named ..": Hostile(forged(("40000", "..", object_id("tree", INNER)), more=(BLOB, ("tree", INNER))), True, REJECTED),
    "duplicate names": Hostile(forged(("100644", "a", OID), ("100644", "a", OID)), True, REJECTED),
    "a submodule URL that is an option": Hostile(
        forged(("100644", ".gitmodules", object_id(*MODULES)), more=(MODULES,)), True, REJECTED
    ),
    "a submodule": Hostile(gitlink, True, ("gitlink",)),
    "a huge file in a tiny pack": Hostile(zeros, True, ("blob_too_big",)),
    "two refs": Hostile(spoiled(two_refs), True, ("bundle_wrong_refs",)),
    "a missing blob": Hostile(forged(("100644", "a", "4" * 40), more=()), False, REJECTED),
    "an unknown parent": Hostile(forged(("100644", "a", OID), parent="5" * 40), False, REJECTED),
    "cut off": Hostile(spoiled(lambda data: data[:-40]), False, ("bundle_rejected",)),
    "no header": Hostile(spoiled(lambda data: data[data.index(b"PACK") :]), False, ("bundle_malformed",)),
    "another version": Hostile(spoiled(lambda data: data.replace(b"# v2", b"# v3", 1)), True, ("bundle_malformed",)),
}


async def publish(inert: Git, origin: Origin, base_git: Path, folder: Path, bundle: Path) -> str:
    publisher = Publisher(
        inert, base_git, folder / "quarantine.git", Transport(origin.url), LocalForge(folder), lambda _: None, lambda: None, str
    )
    task = Task(origin.url, "Fix it", "main", origin.base, "main")
    opened = await publisher.publish(ExportedWork(bundle, "8" * 40), task, BRANCH, lambda changes: report("Fix", changes=changes))
    assert opened is not None
    return opened.head


@pytest.mark.parametrize("name", TWELVE)
async def test_a_hostile_bundle_never_reaches_the_remote(
    inert: Git, origin: Origin, base_git: Path, tmp_path: Path, name: str
) -> None:
    hostile, bundle = TWELVE[name], tmp_path / "work.bundle"
    hostile.make(origin, bundle)
    git("clone", "-q", "--bare", str(base_git), "naive.git", cwd=tmp_path)
    said = git("fetch", "-q", str(bundle), f"{REF}:{REF}", cwd=tmp_path / "naive.git", ok=False)
    assert said.startswith("0 ") == hostile.taken_by_plain_git, f"the control: plain git says {said!r}"
    with pytest.raises(PublishError) as refusal:
        await publish(inert, origin, base_git, tmp_path, bundle)
    assert refusal.value.reason in hostile.reasons
    assert "nothing was pushed" in str(refusal.value)
    assert str(bundle) in str(refusal.value)
    assert set(origin.refs()) == {"refs/heads/main"}
    assert not list(tmp_path.rglob("pull-request.*"))


async def test_the_honest_bundle_is_published(inert: Git, origin: Origin, base_git: Path, tmp_path: Path) -> None:
    assert len(TWELVE) == 12
    head = origin.commit({"a.py": "two\n"})
    assert await publish(inert, origin, base_git, tmp_path, origin.bundle(tmp_path / "work.bundle")) == head
    assert origin.refs()[REF] == head
