"""What of a checkout is not committed, told without running anything that its repository configures."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from agent_harness.inert_git import Git
from agent_harness.uncommitted import Uncommitted, find_uncommitted, note_of
from tests.sessions.rig import GIT_ENV, git

pytestmark = pytest.mark.anyio


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Three committed files and a `.gitignore`."""
    path = tmp_path / "work"
    path.mkdir()
    git(path, "init", "-q", "-b", "main")
    for name in ("a.txt", "b.txt", "c.txt"):
        (path / name).write_text(f"{name}\n")
    (path / ".gitignore").write_text("*.log\n")
    git(path, "add", "-A")
    git(path, "commit", "-q", "-m", "first")
    return path


def plain_git(where: Path, *args: str) -> None:
    """git as a person runs it, whatever comes of it."""
    subprocess.run(["git", "-C", str(where), *args], env=GIT_ENV, check=False, capture_output=True)


async def found(checkout: Path) -> Uncommitted:
    scratch = checkout.parent / "scratch"
    scratch.mkdir()
    return await find_uncommitted(Git(scratch, str), scratch, checkout)


async def test_a_clean_checkout_has_nothing_to_tell(checkout: Path) -> None:
    (checkout / "noise.log").write_text("ignored")
    (checkout / "a.txt").touch()
    told = await found(checkout)
    assert told == Uncommitted((), ())
    assert told.note == ""


async def test_changed_staged_deleted_and_untracked_files_are_told_apart(checkout: Path) -> None:
    (checkout / "a.txt").write_text("changed\n")
    (checkout / "b.txt").write_text("staged\n")
    (checkout / "staged new.txt").write_text("new\n")
    git(checkout, "add", "b.txt", "staged new.txt")
    (checkout / "c.txt").unlink()
    (checkout / "sub").mkdir()
    (checkout / "sub" / "new.txt").write_text("untracked\n")
    told = await found(checkout)
    assert told == Uncommitted((b"a.txt", b"b.txt", b"c.txt", b"staged new.txt"), (b"sub/new.txt",))
    assert told.note == (
        'not committed, so not part of this session: "a.txt", "b.txt", "c.txt", "staged new.txt", "sub/new.txt" '
        "(4 changed, 1 untracked); commit them first, or work on the files in place with --surface host"
    )


async def test_what_is_staged_counts_although_the_file_is_back_to_what_it_was(checkout: Path) -> None:
    (checkout / "a.txt").write_text("staged\n")
    git(checkout, "add", "a.txt")
    (checkout / "a.txt").write_text("a.txt\n")
    assert (await found(checkout)).changed == (b"a.txt",)


async def test_many_are_counted_and_the_first_are_named(checkout: Path) -> None:
    for number in range(1_203):
        (checkout / f"n{number:04}.txt").write_text("x")
    note = (await found(checkout)).note
    assert '"n0004.txt" and 1,198 more (1,203 untracked)' in note
    assert len(note) < 400


async def test_a_conflict_is_a_change(checkout: Path) -> None:
    git(checkout, "checkout", "-q", "-b", "other")
    (checkout / "a.txt").write_text("other\n")
    git(checkout, "commit", "-q", "-a", "-m", "other")
    git(checkout, "checkout", "-q", "main")
    (checkout / "a.txt").write_text("main\n")
    git(checkout, "commit", "-q", "-a", "-m", "main")
    plain_git(checkout, "merge", "-q", "other")
    assert (await found(checkout)).changed == (b"a.txt",)


async def test_a_linked_worktree_has_its_own(checkout: Path) -> None:
    linked = checkout.parent / "linked"
    git(checkout, "worktree", "add", "-q", "-b", "side", str(linked))
    (checkout / "a.txt").write_text("changed\n")
    (linked / "b.txt").write_text("changed\n")
    assert (await found(linked)).changed == (b"b.txt",)


async def test_a_strange_name_stays_on_one_line(checkout: Path) -> None:
    (checkout / "a\nb\x1b[31m").write_text("x")
    note = (await found(checkout)).note
    assert "\n" not in note
    assert "\x1b" not in note


async def test_nothing_of_the_repository_s_configuration_runs_and_nothing_of_it_changes(checkout: Path) -> None:
    marks = checkout.parent / "ran"
    marks.mkdir()
    script = checkout.parent / "hostile.sh"
    script.write_text(f"#!/bin/sh\ntouch {marks}/$(basename $0)-$$\ncat\n")
    script.chmod(0o755)
    for key in ("core.fsmonitor", "filter.evil.clean", "filter.evil.smudge", "filter.evil.process", "diff.evil.command"):
        git(checkout, "config", key, str(script))
    git(checkout, "config", "core.hooksPath", str(checkout.parent))
    (checkout / ".gitattributes").write_text("* filter=evil diff=evil\n")
    (checkout / "a.txt").write_text("change\n")
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in checkout.rglob("*") if path.is_file()}
    told = await found(checkout)
    assert b"a.txt" in told.changed
    assert told.untracked == (b".gitattributes",)
    assert list(marks.iterdir()) == []
    after = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in checkout.rglob("*") if path.is_file()}
    assert after == before
    plain_git(checkout, "status")
    assert list(marks.iterdir()) != [], "the control: plain git runs it"


async def test_what_cannot_be_told_is_no_reason_to_stop(checkout: Path) -> None:
    (checkout / ".git" / "index").write_bytes(b"no index")
    scratch = checkout.parent / "scratch"
    scratch.mkdir()
    note = await note_of(Git(scratch, str), scratch, checkout)
    assert note.startswith("what is not committed is not part of this session (")
