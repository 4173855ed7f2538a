"""The sandbox's repository: what of the history gets in, what stays out, and work on top of what stayed out."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from agent_harness.errors import SurfaceError
from agent_harness.inert_git import Git, Transport
from agent_harness.surfaces import clone
from agent_harness.surfaces.clone import CloneSource, Copied
from agent_harness.surfaces.local import LocalSurface
from agent_harness.surfaces.paths import Denied
from tests.fakes.local_origin import BRANCH, shell
from tests.sessions.rig import git

pytestmark = pytest.mark.anyio
SECRET = "sesame-planted-2342"


def make(folder: Path, *commits: Mapping[str, str | None]) -> Path:
    """A repository with these commits; None deletes a file."""
    work = folder / "work"
    work.mkdir()
    git(work, "init", "-q", "-b", "main")
    for number, files in enumerate(commits):
        for name, text in files.items():
            path = work / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if text is None:
                path.unlink()
            else:
                path.write_text(text, encoding="utf-8")
        git(work, "add", "-A", "-f")
        git(work, "commit", "-q", "--allow-empty", "-m", f"commit {number}")
    return work


def source_of(work: Path) -> CloneSource:
    return CloneSource(Transport(f"file://{work}"), "refs/heads/main", git(work, "rev-parse", "main"), "main")


async def copied(folder: Path, work: Path, deny: Sequence[str] = (), source: CloneSource | None = None) -> Copied:
    """`folder/base.git` and `folder/repo.git`."""
    runner, source = Git(folder, lambda text: text), source or source_of(work)
    await clone.fetch(runner, source, folder / "base.git")
    return await clone.copy(runner, folder / "base.git", folder / "repo.git", source, BRANCH, Denied(deny))


def contents(repository: Path) -> bytes:
    """Every object of a repository, uncompressed."""
    ids = subprocess.run(
        ["git", f"--git-dir={repository}", "cat-file", "--batch-all-objects", "--batch-check=%(objectname)"],
        capture_output=True, check=True,
    ).stdout  # fmt: skip
    done = subprocess.run(["git", f"--git-dir={repository}", "cat-file", "--batch"], input=ids, capture_output=True, check=True)
    return done.stdout


async def test_without_denied_files_the_objects_are_borrowed(tmp_path: Path) -> None:
    work = make(tmp_path, {"a": "1"}, {"a": "2"})
    result = await copied(tmp_path, work)
    assert (result.hidden, result.borrows) == ([], True)
    assert list((tmp_path / "repo.git" / "objects").rglob("*.pack")) == []
    assert not list((tmp_path / "repo.git").rglob("hooks"))


HISTORIES: dict[str, tuple[tuple[Mapping[str, str | None], ...], bool]] = {
    # name: commits, the secret is left out
    "at the base": (({"a": "1", ".env": SECRET},), True),
    "deleted long ago": (({"a": "1", ".env": SECRET}, {".env": None, "a": "2"}, {"a": "3"}), True),
    "in a denied folder": (({"a": "1", "x/.ssh/config": SECRET},), True),
    "of another case": (({"a": "1", "deploy/PROD.PEM": SECRET},), True),
    "also under an allowed name later": (({"a": "1", ".env": SECRET}, {"notes.txt": SECRET}), False),
    "also under an allowed name once": (({"notes.txt": SECRET, ".env": SECRET}, {"notes.txt": None}), False),
    "whole folder also under an allowed name": (({"a": "1", ".ssh/config": SECRET, "zz/config": SECRET},), False),
    "after a newline in a folder's name": (({"a": "1", "n\nl/.env": SECRET},), True),
    "only an example": (({"a": "1", ".env.example": SECRET},), False),
}


@pytest.mark.parametrize("name", HISTORIES)
async def test_a_blob_is_left_out_exactly_when_it_only_ever_had_denied_names(tmp_path: Path, name: str) -> None:
    commits, left_out = HISTORIES[name]
    result = await copied(tmp_path, make(tmp_path, *commits))
    base, ours = contents(tmp_path / "base.git"), tmp_path / "repo.git"
    assert SECRET.encode() in base, "the control: a plain clone has it"
    assert result.borrows is not left_out
    if left_out:
        found = contents(ours)
        assert SECRET.encode() not in found
        assert b"commit 0" in found
        assert clone.PLACEHOLDER in found
        assert not (ours / "objects" / "info" / "alternates").exists()
        assert SECRET.encode() not in b"".join(path.read_bytes() for path in ours.rglob("*") if path.is_file())


async def test_a_secret_of_the_default_branch_or_a_tag_is_left_out_too(tmp_path: Path) -> None:
    work = make(tmp_path, {"a": "1"})
    git(work, "branch", "release")
    for text in ("kept", "tagged", None):
        if text is None:
            git(work, "rm", "-q", "-f", "id_rsa")
        else:
            (work / "id_rsa").write_text(f"{SECRET} {text}", encoding="utf-8")
            git(work, "add", "-f", "id_rsa")
        git(work, "commit", "-q", "-m", str(text))
    git(work, "tag", "-a", "-m", "v", "v1.key", "main~1")
    source = CloneSource(Transport(f"file://{work}"), "refs/heads/release", git(work, "rev-parse", "release"), "main")
    result = await copied(tmp_path, work, source=source)
    assert result.hidden == []
    assert contents(tmp_path / "base.git").count(SECRET.encode()) == 2
    assert SECRET.encode() not in contents(tmp_path / "repo.git")


async def test_the_persons_globs_count_as_denied(tmp_path: Path) -> None:
    result = await copied(tmp_path, make(tmp_path, {"a": "1", "data/big.csv": SECRET}), deny=("data/**",))
    assert result.hidden == ["data/big.csv"]
    assert SECRET.encode() not in contents(tmp_path / "repo.git")


async def test_a_base_that_was_moved_meanwhile_says_so(tmp_path: Path) -> None:
    work = make(tmp_path, {"a": "1"})
    runner = Git(tmp_path, lambda text: text)
    source = source_of(work)
    git(work, "commit", "-q", "--amend", "--allow-empty", "-m", "rewritten")
    await clone.fetch(runner, source, tmp_path / "base.git")
    with pytest.raises(SurfaceError, match=r"was moved while it was cloned.*run the same again"):
        await clone.copy(runner, tmp_path / "base.git", tmp_path / "repo.git", source, BRANCH, Denied())


async def test_the_remote_and_its_credentials_are_nowhere_in_the_clone(tmp_path: Path) -> None:
    work = make(tmp_path, {"a": "1", ".env": "x"})
    await copied(tmp_path, work)
    for name in ("base.git", "repo.git"):
        files = [path.read_bytes() for path in (tmp_path / name).rglob("*") if path.is_file() and "objects" not in path.parts]
        assert files
        assert str(work).encode() not in b"".join(files) or name == "base.git"
    assert git(tmp_path / "repo.git", "config", "remote.origin.url") == clone.ORIGIN


async def test_work_on_a_history_with_left_out_files_reads_commits_and_exports(tmp_path: Path) -> None:
    work = make(
        tmp_path,
        {"a.txt": "1\n", ".env": f"{SECRET}-old\n", "sub/k.pem": f"{SECRET}-pem\n"},
        {".env": f"{SECRET}-new\n", "empty.key": "", "empty.txt": ""},
    )
    session = tmp_path / "session"
    session.mkdir()
    local = LocalSurface(session, Git(session, lambda text: text), source_of(work), BRANCH)
    try:
        await local.open()
        for command in (
            "git log -p",
            "git show HEAD~1:.env",
            "git diff HEAD~1",
            "git grep -n left HEAD",
            "git log --stat",
            "git status",
        ):
            result, said = await shell(local, command)
            assert result.exit_code == 0, said
            assert SECRET not in said, command
        assert (await shell(local, "git log -p"))[1].count("left out: not readable") == 2
        _, said = await shell(local, "git status --short; git for-each-ref --format='%(refname)' refs/heads refs/remotes; ls -A")
        assert said.split() == [
            *(f"refs/heads/{BRANCH}", "refs/heads/main", "refs/remotes/origin/HEAD", "refs/remotes/origin/main"),
            *(".agent", ".agent-traces", ".git", "a.txt", "empty.txt"),
        ]
        await local.write("a.txt", b"2\n")
        commit = "git add -A && git -c user.name=m -c user.email=m@x commit -q -m mine && git status --short"
        result = await local.exec(["sh", "-c", commit], writable_git=True)
        assert result.exit_code == 0
        await local.write("sub/new.txt", b"new\n", create=True)
        exported = await local.export("The rest")
        assert exported.bundle is not None
    finally:
        await local.close()
    git(work, "fetch", "-q", str(exported.bundle), BRANCH)
    assert git(work, "log", "--format=%s", "main..FETCH_HEAD").split("\n") == ["The rest", "mine"]
    assert git(work, "diff", "--name-status", "main", "FETCH_HEAD").split("\n") == ["M\ta.txt", "A\tsub/new.txt"]
    assert git(work, "show", "FETCH_HEAD:.env") == f"{SECRET}-new"
    git(work, "fsck", "--strict")
    assert SECRET.encode() not in exported.bundle.read_bytes()


async def test_only_the_base_the_default_branch_and_their_tags_are_cloned(tmp_path: Path) -> None:
    work = make(tmp_path, {"a": "1"}, {"a": "2"})
    git(work, "tag", "v1", "main~1")
    git(work, "tag", "-a", "-m", "two", "v2", "main")
    for name in ("release", "agent/earlier", "big"):
        git(work, "checkout", "-q", "-b", name, "main")
        (work / "b").write_text(f"only on {name}")
        git(work, "add", "b")
        git(work, "commit", "-q", "-m", name)
    git(work, "tag", "elsewhere")
    commit = git(work, "rev-parse", "release")
    source = CloneSource(Transport(f"file://{work}"), "refs/heads/release", commit, "main")
    base = tmp_path / "base.git"
    await clone.fetch(Git(tmp_path, str), source, base)
    refs = git(base, "for-each-ref", "--format=%(refname)").splitlines()
    assert refs == ["refs/heads/main", "refs/heads/release", "refs/tags/v1", "refs/tags/v2"]
    everything = contents(base)
    assert b"only on release" in everything
    assert b"only on big" not in everything
    git(tmp_path, "clone", "-q", "--mirror", f"file://{work}", str(tmp_path / "all.git"))
    assert b"only on big" in contents(tmp_path / "all.git"), "the control"


async def test_a_source_without_the_default_branch_of_its_remote_is_cloned_all_the_same(tmp_path: Path) -> None:
    work = make(tmp_path, {"a": "1"})
    source = CloneSource(Transport(f"file://{work}"), "refs/heads/main", git(work, "rev-parse", "main"), "trunk")
    await clone.fetch(Git(tmp_path, str), source, tmp_path / "base.git")
    assert git(tmp_path / "base.git", "for-each-ref", "--format=%(refname)") == "refs/heads/main"
