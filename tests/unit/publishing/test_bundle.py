from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_harness.inert_git import Git
from agent_harness.publishing.bundle import BundleRefused, import_bundle, read_header
from tests.unit.publishing.repos import REF, Origin, forged_bundle, git, object_id, tree

pytestmark = pytest.mark.anyio


async def take(inert: Git, bundle: Path, base_git: Path, base: str, max_bytes: int = 1 << 24) -> str:
    quarantine = bundle.parent / "quarantine.git"
    return await import_bundle(
        inert, bundle, ref=REF, base_git=base_git, base_commit=base, quarantine=quarantine, max_bytes=max_bytes
    )


async def refused(inert: Git, bundle: Path, base_git: Path, base: str, max_bytes: int = 1 << 24) -> str:
    with pytest.raises(BundleRefused) as refusal:
        await take(inert, bundle, base_git, base, max_bytes)
    assert str(bundle) in str(refusal.value)
    assert "nothing was pushed" in str(refusal.value)
    assert refusal.value.reason == f"bundle_{refusal.value.why}"
    return refusal.value.why


async def test_an_honest_bundle_is_taken_and_the_base_lends_what_it_leaves_out(
    inert: Git, origin: Origin, base_git: Path, tmp_path: Path
) -> None:
    head = origin.commit({"a.py": "two\n", "new.txt": "n\n"})
    bundle = origin.bundle(tmp_path / "work.bundle")
    for _ in range(2):  # a second attempt replaces what the first one left
        assert await take(inert, bundle, base_git, origin.base) == head
    quarantine = tmp_path / "quarantine.git"
    assert git("cat-file", "-p", f"{head}:b.txt", cwd=quarantine) == "b"
    assert not list((quarantine / "hooks").glob("*")) if (quarantine / "hooks").exists() else True


async def test_a_bundle_without_the_denied_files_blobs_is_complete_by_the_base(
    inert: Git, origin: Origin, base_git: Path, tmp_path: Path
) -> None:
    blob = git("rev-parse", f"{origin.base}:b.txt", cwd=origin.clone)
    entries = tree(("100644", "a.py", object_id("blob", b"changed\n")), ("100644", "b.txt", blob))
    head = forged_bundle(tmp_path / "work.bundle", origin.base, entries, ("blob", b"changed\n"))
    assert await take(inert, tmp_path / "work.bundle", base_git, origin.base) == head


Spoil = Callable[[bytes], bytes]
SPOILED: dict[str, tuple[str, Spoil]] = {
    "truncated": ("rejected", lambda data: data[:-40]),
    "a bit flipped": ("rejected", lambda data: data[:-60] + bytes([data[-60] ^ 1]) + data[-59:]),
    "no header": ("malformed", lambda data: data[data.index(b"PACK") :]),
    "version 3": ("malformed", lambda data: data.replace(b"# v2", b"# v3", 1)),
    "a filter": ("malformed", lambda data: data.replace(b"bundle\n", b"bundle\n@filter=blob:none\n", 1)),
    "zeros": ("malformed", lambda data: bytes(len(data))),
    "empty": ("malformed", lambda data: b""),
    "header alone": ("malformed", lambda data: data[: data.index(b"PACK")]),
    "a header that never ends": ("malformed", lambda data: b"# v2 git bundle\n" + b"-" + b"a" * 100_000),
    "two refs": ("wrong_refs", lambda data: data.replace(b"\n\n", b"\n" + b"1" * 40 + b" refs/heads/main\n\n", 1)),
    "another ref": ("wrong_refs", lambda data: data.replace(REF.encode(), b"refs/heads/main", 1)),
    "a million objects": ("too_big", lambda data: data[: data.index(b"PACK") + 8] + b"\x00\x10\x00\x00" + bytes(40)),
    "trailing junk": ("rejected", lambda data: data + b"junk" * 100),
    "an unknown base": ("unknown_base", lambda data: data.replace(b"\n-", b"\n-" + b"2" * 40 + b" x\n-", 1)),
    "a head that is not there": ("incomplete", lambda data: data.replace(head_line(data), b"3" * 40, 1)),
}


def head_line(data: bytes) -> bytes:
    return next(line.split(b" ")[0] for line in data.split(b"\n\n")[0].split(b"\n") if line.endswith(REF.encode()))


@pytest.mark.parametrize("how", SPOILED)
async def test_a_spoiled_bundle_is_refused_with_its_own_reason(
    inert: Git, origin: Origin, base_git: Path, tmp_path: Path, how: str
) -> None:
    origin.commit({"a.py": "two\n"})
    data = origin.bundle(tmp_path / "honest.bundle").read_bytes()
    why, spoil = SPOILED[how]
    spoiled = tmp_path / "work.bundle"
    spoiled.write_bytes(spoil(data))
    assert await refused(inert, spoiled, base_git, origin.base) == why


def hostile_trees(origin: Origin) -> dict[str, tuple[str, bytes, tuple[tuple[str, bytes], ...]]]:
    blob = ("blob", b"x\n")
    oid = object_id(*blob)
    modules = ("blob", b'[submodule "a"]\n\tpath = a\n\turl = --upload-pack=touch\n')
    inner = tree(("100644", "config", oid))
    return {
        "an entry named .git": ("rejected", tree(("40000", ".git", object_id("tree", inner))), (blob, ("tree", inner))),
        "an entry named .GIT": ("rejected", tree(("40000", ".GIT", object_id("tree", inner))), (blob, ("tree", inner))),
        "an entry named ..": ("rejected", tree(("40000", "..", object_id("tree", inner))), (blob, ("tree", inner))),
        "an entry with a slash": ("rejected", tree(("100644", "a/b", oid)), (blob,)),
        "duplicate names": ("rejected", tree(("100644", "a", oid), ("100644", "a", oid)), (blob,)),
        "a submodule URL that is an option": ("rejected", tree(("100644", ".gitmodules", object_id(*modules))), (modules,)),
        "a missing blob": ("rejected", tree(("100644", "a", "4" * 40)), ()),
    }


@pytest.mark.parametrize("how", sorted(hostile_trees(Origin(Path(), Path(), ""))))
async def test_a_hostile_tree_is_refused(inert: Git, origin: Origin, base_git: Path, tmp_path: Path, how: str) -> None:
    why, data, more = hostile_trees(origin)[how]
    forged_bundle(tmp_path / "work.bundle", origin.base, data, *more)
    assert await refused(inert, tmp_path / "work.bundle", base_git, origin.base) in {why, "incomplete"}


async def test_the_control_plain_fetch_takes_a_bundle_that_is_refused_here(
    origin: Origin, base_git: Path, tmp_path: Path
) -> None:
    _, data, more = hostile_trees(origin)["an entry named .git"]
    head = forged_bundle(tmp_path / "work.bundle", origin.base, data, *more)
    git("fetch", "-q", str(tmp_path / "work.bundle"), f"{REF}:{REF}", cwd=base_git)
    assert git("rev-parse", REF, cwd=base_git) == head
    assert ".git" in git("ls-tree", head, cwd=base_git)


async def test_a_commit_that_does_not_descend_from_the_base_is_unrelated(
    inert: Git, origin: Origin, base_git: Path, tmp_path: Path
) -> None:
    git("checkout", "-q", "--orphan", "other", cwd=origin.clone)
    head = origin.commit({"a.py": "other\n"})
    git("update-ref", REF, head, cwd=origin.clone)
    bundle = origin.bundle(tmp_path / "work.bundle", REF)
    assert await refused(inert, bundle, base_git, origin.base) == "unrelated"


async def test_an_unknown_parent_is_refused(inert: Git, origin: Origin, base_git: Path, tmp_path: Path) -> None:
    blob = ("blob", b"x\n")
    data = tree(("100644", "a", object_id(*blob)))
    forged_bundle(tmp_path / "work.bundle", origin.base, data, blob, parent="5" * 40)
    assert await refused(inert, tmp_path / "work.bundle", base_git, origin.base) in {"rejected", "incomplete"}


async def test_a_tree_or_tag_instead_of_a_commit_is_refused(inert: Git, origin: Origin, base_git: Path, tmp_path: Path) -> None:
    origin.commit({"a.py": "two\n"})
    tree_id = git("rev-parse", "HEAD^{tree}", cwd=origin.clone)
    data = origin.bundle(tmp_path / "honest.bundle").read_bytes()
    (tmp_path / "work.bundle").write_bytes(data.replace(head_line(data), tree_id.encode(), 1))
    assert await refused(inert, tmp_path / "work.bundle", base_git, origin.base) == "not_a_commit"


async def test_a_link_or_a_file_that_is_too_big_is_not_even_opened(
    inert: Git, origin: Origin, base_git: Path, tmp_path: Path
) -> None:
    origin.commit({"a.py": "two\n"})
    bundle = origin.bundle(tmp_path / "honest.bundle")
    assert await refused(inert, bundle, base_git, origin.base, max_bytes=100) == "too_big"
    link = tmp_path / "work.bundle"
    link.symlink_to(bundle)
    assert await refused(inert, link, base_git, origin.base) == "malformed"


@given(data=st.binary(max_size=300), signed=st.booleans())
@settings(max_examples=60, deadline=None)
def test_no_bytes_make_the_header_reader_fail_otherwise(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, signed: bool
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.bundle"
    path.write_bytes((b"# v2 git bundle\n" if signed else b"") + data)
    with pytest.raises(BundleRefused):
        read_header(path, REF)
