"""What a session may do to a checkout, and that all of it can be undone: every byte, mode, link and name."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_harness.errors import ConfigError, ToolFailed
from agent_harness.events import Event, Notice
from agent_harness.in_place import take_place
from agent_harness.inert_git import Git
from agent_harness.surfaces.checkout import Hold
from tests.fakes.host_checkout import make_checkout, opened_host, restore, state
from tests.fakes.local_origin import shell
from tests.sessions.rig import git, make_origin

pytestmark = pytest.mark.anyio
FILES: dict[str, str | bytes] = {
    "a.txt": "one\n",
    "lib/b.py": "x = 1\n",
    "lib/deep/c.bin": bytes(range(256)),
    "run.sh": "#!/bin/sh\n",
    ".gitignore": "*.local\nout/\n",
}
WRECK = r"""
find . -mindepth 1 -not -path './.git' -not -path './.git/*' -not -path './sub/.git*' -delete 2>/dev/null
mkdir -p evil/deep lib.d; echo agent > evil/deep/x; echo agent > a.txt; ln -s / evil/root; ln -s a.txt run.sh; mkdir b.txt
echo q > b.txt/q; chmod 000 evil/deep; touch "$(printf 'new\nline')"; echo agent > lib; chmod 700 a.txt
"""


def plain(folder: Path) -> Path:
    """Staged, changed, untracked, ignored, odd names and modes; a folder and a file that nobody may write."""
    checkout = make_checkout(folder, FILES)
    (checkout / "a.txt").write_text("staged\n")
    git(checkout, "add", "a.txt")
    (checkout / "a.txt").write_text("changed again\n")
    (checkout / "run.sh").chmod(0o751)
    (checkout / "key.local").write_text("ignored\n")
    (checkout / "out" / "inner").mkdir(parents=True)
    (checkout / "out" / "inner" / "made.o").write_bytes(b"\0\1")
    (checkout / "empty").mkdir(mode=0o710)
    (checkout / "link").symlink_to("lib/b.py")
    (checkout / "dangling").symlink_to("no/such\nplace")
    for name in (b"new\nline", b"not utf-8 \xff\xfe", b" ", b"-rf", b"*"):
        Path(os.fsdecode(os.fsencode(checkout) + b"/" + name)).write_bytes(b"odd " + name)
    (checkout / "locked").mkdir()
    (checkout / "locked" / "read-only.txt").write_text("do not write\n")
    (checkout / "locked" / "read-only.txt").chmod(0o400)
    (checkout / "locked").chmod(0o555)
    os.utime(checkout / "key.local", ns=(1, 1_600_000_000_123_456_789))
    return checkout


def without_commits(folder: Path) -> Path:
    checkout = folder / "work"
    git(folder, "init", "-q", "-b", "main", str(checkout))
    (checkout / "a.txt").write_text("never committed\n")
    (checkout / "b.txt").write_text("staged\n")
    git(checkout, "add", "b.txt")
    return checkout


def worktree(folder: Path) -> Path:
    main = make_checkout(folder, FILES)
    main.rename(folder / "main")
    git(folder / "main", "worktree", "add", "-q", "-b", "side", str(folder / "work"))
    (folder / "work" / "a.txt").write_text("changed in the worktree\n")
    return folder / "work"


def with_submodule(folder: Path) -> Path:
    checkout = make_checkout(folder, FILES)
    inner = folder / "inner"
    inner.mkdir()
    other = make_origin(inner, {"s.txt": "sub\n", "t/u.txt": "sub\n"})
    git(checkout, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(other), "sub")
    git(checkout, "commit", "-q", "-m", "sub")
    (checkout / "sub" / "s.txt").write_text("changed in the submodule\n")
    (checkout / "sub" / "v.txt").write_text("untracked in the submodule\n")
    return checkout


def sparse(folder: Path) -> Path:
    checkout = make_checkout(folder, FILES)
    git(checkout, "sparse-checkout", "set", "--cone", "--sparse-index", "lib/deep")
    assert not (checkout / "lib" / "other").exists()
    return checkout


def split_index(folder: Path) -> Path:
    checkout = make_checkout(folder, FILES)
    git(checkout, "update-index", "--split-index")
    (checkout / "b.txt").write_text("b\n")
    git(checkout, "add", "b.txt")
    return checkout


def unseen_by_git(folder: Path) -> Path:
    """git was told not to look: the files have bytes that it does not know."""
    checkout = make_checkout(folder, FILES)
    git(checkout, "update-index", "--assume-unchanged", "a.txt")
    git(checkout, "update-index", "--skip-worktree", "lib/b.py")
    (checkout / "a.txt").write_text("assumed unchanged\n")
    (checkout / "lib" / "b.py").write_text("skipped\n")
    return checkout


def converting(folder: Path) -> Path:
    """Checked-out files have other bytes than their blobs: line ends, an encoding, an id, a filter."""
    attributes = "*.crlf text eol=crlf\n*.u16 text working-tree-encoding=UTF-16LE\n*.id ident\n*.rot filter=rot\n"
    files: dict[str, str | bytes] = {
        **FILES,
        ".gitattributes": attributes,
        "w.crlf": "a\nb\n",
        "i.id": "$Id$\n",
        "r.rot": "abc\n",
    }
    checkout = make_checkout(folder, files)
    git(checkout, "config", "filter.rot.clean", "tr a-z b-za")
    git(checkout, "config", "filter.rot.smudge", "tr b-za a-z")
    (checkout / "e.u16").write_bytes("ab\n".encode("utf-16-le"))
    git(checkout, "add", "e.u16")
    git(checkout, "commit", "-q", "-m", "encoded")
    for name in ("w.crlf", "i.id", "r.rot"):
        (checkout / name).unlink()
    git(checkout, "checkout", "-q", "--", ".")
    assert (checkout / "w.crlf").read_bytes() == b"a\r\nb\r\n"
    assert (checkout / "r.rot").read_bytes() == b"zab\n"
    return checkout


KINDS = (plain, without_commits, worktree, with_submodule, sparse, split_index, unseen_by_git, converting)


@pytest.mark.parametrize("make", KINDS, ids=lambda make: make.__name__)
async def test_restore_gives_every_byte_and_mode_back_and_running_it_again_does_nothing(
    tmp_path: Path, make: Callable[[Path], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    checkout = make(tmp_path)
    before, repository = state(checkout), state(tmp_path / "main") if make is worktree else {}
    async with opened_host(checkout) as surface:
        await shell(surface, WRECK)
    wrecked = state(checkout)
    assert wrecked != before, "the control: the session did change it"
    assert (wrecked.get(b".git"), wrecked.get(b".git/index")) == (before.get(b".git"), before.get(b".git/index"))
    assert await restore(checkout) == 0, capsys.readouterr().out
    assert state(checkout) == before
    assert "is as session session found it" in capsys.readouterr().out
    assert await restore(checkout) == 0
    assert "nothing to do" in capsys.readouterr().out
    assert await restore(checkout, undo=True) == 0
    undone = {path: about for path, about in state(checkout).items() if not path.startswith(b".agent")}
    assert undone == {path: about for path, about in wrecked.items() if not path.startswith(b".agent")}
    if make is worktree:
        assert state(tmp_path / "main") == repository
    shutil.rmtree(checkout, ignore_errors=True)


async def test_a_restored_file_has_its_time_back_and_git_sees_no_change(tmp_path: Path) -> None:
    checkout = plain(tmp_path)
    before = git(checkout, "status", "--porcelain=v2")
    async with opened_host(checkout) as surface:
        await shell(surface, WRECK)
    await restore(checkout)
    assert (checkout / "key.local").stat().st_mtime_ns == 1_600_000_000_123_456_789
    assert git(checkout, "status", "--porcelain=v2") == before


async def test_what_a_person_changed_after_the_session_stays_or_is_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checkout = make_checkout(tmp_path, FILES)
    async with opened_host(checkout) as surface:
        await shell(surface, "echo agent > a.txt; echo agent > added.txt; mkdir made; echo agent > made/x; rm run.sh")
    (checkout / "a.txt").write_text("the person's own, on top\n")
    (checkout / "lib" / "b.py").write_text("the person's own\n")
    (checkout / "mine.txt").write_text("the person's new file\n")
    (checkout / "made" / "mine.txt").write_text("in the agent's folder\n")
    assert await restore(checkout) == 1, "the agent's folder holds a file of the person"
    said = capsys.readouterr().out
    assert (checkout / "a.txt").read_text() == "one\n"
    assert not (checkout / "added.txt").exists()
    assert (checkout / "run.sh").exists()
    assert (checkout / "lib" / "b.py").read_text() == "the person's own\n"
    assert (checkout / "mine.txt").exists()
    assert (checkout / "made" / "mine.txt").exists()
    assert 'changed after the session, left as it is: "lib/b.py"' in said
    assert 'your version is kept: "a.txt"' in said
    assert 'NOT given back: "made": directory not empty' in said
    assert await restore(checkout, undo=True) == 0
    assert (checkout / "a.txt").read_text() == "the person's own, on top\n"
    assert (checkout / "made" / "x").read_text() == "agent\n"


async def test_a_restore_never_follows_a_link_that_the_agent_laid(tmp_path: Path) -> None:
    checkout = make_checkout(tmp_path, FILES)
    outside = tmp_path / "outside"
    (outside / "deep").mkdir(parents=True)
    (outside / "b.py").write_text("not yours\n")
    before = state(outside)
    async with opened_host(checkout) as surface:
        await shell(surface, f"rm -r lib; ln -s {outside} lib; rm a.txt; ln -s {outside}/b.py a.txt")
    await restore(checkout)
    assert state(outside) == before
    assert (checkout / "lib" / "b.py").read_text() == "x = 1\n"


async def test_our_temporary_folder_is_removed_without_following_a_link_in_its_place(tmp_path: Path) -> None:
    checkout = make_checkout(tmp_path, FILES)
    outside = tmp_path / "outside"
    (outside / "tmp").mkdir(parents=True)
    (outside / "tmp" / "precious").write_text("keep")
    async with opened_host(checkout) as surface:
        await shell(surface, f"rm -r .agent; ln -s {outside} .agent")
    assert (outside / "tmp" / "precious").read_text() == "keep"


async def test_what_is_too_large_and_ignored_is_left_out_and_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    checkout = make_checkout(tmp_path, FILES)
    (checkout / "big.local").write_bytes(b"x" * (1 << 20) + b"y")
    (checkout / "big.untracked").write_bytes(b"x" * (1 << 20) + b"y")
    events: list[Event] = []
    async with opened_host(checkout, events=events) as surface:
        await shell(surface, "rm big.local big.untracked")
    (notice,) = [event for event in events if isinstance(event, Notice) and event.kind == "snapshot"]
    assert "big.local" in notice.detail
    assert "untracked" not in notice.detail
    assert await restore(checkout) == 1
    assert 'NOT given back: "big.local": its content was not in the snapshot' in capsys.readouterr().out
    assert (checkout / "big.untracked").stat().st_size == (1 << 20) + 1


async def test_a_repository_that_appears_is_reported_to_the_model_and_to_the_person(tmp_path: Path) -> None:
    checkout = make_checkout(tmp_path, FILES)
    events: list[Event] = []
    async with opened_host(checkout, events=events) as surface:
        nothing, _ = await shell(surface, "mkdir -p one/two")
        found, _ = await shell(surface, "git init -q one/two; git init -q --bare lib/bare.git")
        again, _ = await shell(surface, "true")
    assert (nothing.remarks, again.remarks) == ((), ())
    assert len(found.remarks) == 2
    told = [event.detail for event in events if isinstance(event, Notice) and event.kind == "repository_changed"]
    assert any('"one/two"' in detail for detail in told)
    assert any('"lib/bare.git"' in detail for detail in told)


@pytest.mark.parametrize("path", [".git/config", ".git/hooks/post-checkout", ".git/info/attributes", ".git/commondir"])
async def test_a_changed_setting_of_the_repository_is_reported_and_needs_no_confine(tmp_path: Path, path: str) -> None:
    checkout = make_checkout(tmp_path, FILES)
    async with opened_host(checkout) as surface:
        before = state(checkout / ".git")
        refused, _ = await shell(surface, f"echo '[evil]' >> {path}")
        assert refused.exit_code != 0
        assert state(checkout / ".git") == before
    shutil.rmtree(tmp_path / "home")
    events: list[Event] = []
    async with opened_host(checkout, confined=False, events=events) as surface:
        control, _ = await shell(surface, f"echo '[evil]' >> {path}")
        assert control.exit_code == 0, "the control: without bubblewrap it can be written"
    assert any(path in remark for remark in control.remarks)
    assert any(isinstance(event, Notice) and event.kind == "repository_changed" and path in event.detail for event in events)


async def test_what_a_person_changes_in_the_repository_meanwhile_is_not_laid_on_a_command(tmp_path: Path) -> None:
    checkout = make_checkout(tmp_path, FILES)
    events: list[Event] = []
    async with opened_host(checkout, events=events) as surface:
        git(checkout, "config", "user.name", "Ann")
        result, _ = await shell(surface, "true")
    assert result.remarks == ()
    (notice,) = [event for event in events if isinstance(event, Notice) and event.kind == "repository_changed"]
    assert "by somebody else" in notice.detail


async def test_a_second_session_is_refused_until_the_first_has_ended(tmp_path: Path) -> None:
    checkout = make_checkout(tmp_path, FILES)
    async with opened_host(checkout):
        with pytest.raises(ConfigError, match=r"^session session works in .* --surface local"):
            await take_place(Git(tmp_path, str), checkout / "lib", tmp_path / "home", {"HOME": "/nowhere"}, confined=True)
        with pytest.raises(ConfigError, match="session session is still running"):
            await restore(checkout)
    Hold(checkout, "this one").release()


async def test_a_commit_is_built_from_what_changed_and_the_persons_branch_stays(tmp_path: Path) -> None:
    checkout = make_checkout(tmp_path, {**FILES, "link-to-be": "file\n"})
    (checkout / "target").symlink_to("a.txt")
    git(checkout, "add", "-A")
    git(checkout, "commit", "-q", "-m", "link")
    before = state(checkout / ".git")
    async with opened_host(checkout) as surface:
        script = (
            "rm link-to-be; ln -s a.txt link-to-be; rm target; echo file > target; rm -r lib; echo lib > lib; rm run.sh; "
            "mkdir run.sh; echo x > run.sh/x; chmod +x a.txt; echo i > i.local; git init -q n; echo s > n/f; "
            "echo b > \"$(printf 'odd\\nname')\""
        )
        await shell(surface, script)
        work = await surface.export("The work\n")
    assert work.bundle is not None
    assert state(checkout / ".git") == before
    other = tmp_path / "other"
    git(tmp_path, "clone", "-q", str(checkout), str(other))
    git(other, "fetch", "-q", str(work.bundle), "agent/test")
    listed = git(other, "ls-tree", "-r", "-z", "FETCH_HEAD").split("\0")
    tree = {entry.split("\t")[1]: entry.split(" ")[0] for entry in listed if entry}
    files = {".gitignore": "100644", "a.txt": "100755", "lib": "100644", "run.sh/x": "100644", "odd\nname": "100644"}
    assert tree == {**files, "link-to-be": "120000", "target": "100644"}
    assert git(other, "log", "-1", "--format=%P %an", "FETCH_HEAD") == f"{git(checkout, 'rev-parse', 'HEAD')} agent-harness"


async def test_nothing_of_the_persons_index_gets_into_the_commit_but_what_changed(tmp_path: Path) -> None:
    checkout = make_checkout(tmp_path, FILES)
    async with opened_host(checkout) as surface:
        with pytest.raises(ToolFailed, match="own checkout"):
            await surface.exec(["git", "commit", "-m", "x"], writable_git=True)
        work = await surface.export("nothing")
        assert (work.bundle, work.in_place) == (None, ())
        await shell(surface, "touch a.txt; echo x > .env; echo t > .agent/t")
        work = await surface.export("nothing that belongs in a commit")
        assert (work.bundle, work.in_place) == (None, (".env",))
