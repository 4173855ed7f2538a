from __future__ import annotations

import os
from pathlib import Path

import pytest

from agent_harness.errors import PublishError
from agent_harness.inert_git import Git
from agent_harness.publishing.base import ChangedFile
from agent_harness.publishing.scan import scan
from agent_harness.task import Permits
from tests.unit.publishing.repos import Origin, git

pytestmark = pytest.mark.anyio


async def test_the_changes_are_the_files_that_differ_with_their_lines(inert: Git, origin: Origin) -> None:
    (origin.clone / "blob.bin").write_bytes(bytes(range(256)))
    origin.commit({"a.py": "one\ntwo\n", "b.txt": None})
    head = origin.commit({"dir/tab\tand\nline": "x\n", "3\t4\tname": "y\n"})
    found = await scan(inert, origin.clone / ".git", origin.base, head)
    assert found.changes == (
        ChangedFile("3\t4\tname", "A", 1, 0),
        ChangedFile("a.py", "M", 1, 0),
        ChangedFile("b.txt", "D", 0, 1),
        ChangedFile("blob.bin", "A", None, None),
        ChangedFile("dir/tab\tand\nline", "A", 1, 0),
    )
    assert found.commits == 2
    assert found.remarks == ()


async def test_what_one_commit_adds_and_the_next_removes_is_still_seen(inert: Git, origin: Origin) -> None:
    origin.commit({".husky/pre-commit": "echo\n"})
    head = origin.commit({".husky/pre-commit": None})
    found = await scan(inert, origin.clone / ".git", origin.base, head)
    assert found.changes == ()
    assert found.remarks == ("It touches git's own configuration files: `.husky/pre-commit`.",)


async def test_links_modes_and_settings_that_act_are_flagged(inert: Git, origin: Origin) -> None:
    (origin.clone / "link").symlink_to("/etc/passwd")
    (origin.clone / "a.py").chmod(0o755)
    head = origin.commit({"sub/.mcp.json": "{}", ".gitattributes": "* text\n", **{f"x{n}/AGENTS.md": "x" for n in range(7)}})
    remarks = "\n".join((await scan(inert, origin.clone / ".git", origin.base, head)).remarks)
    assert "symbolic links: `link`." in remarks
    assert "executable: `a.py`." in remarks
    assert "`.gitattributes`" in remarks
    assert "coding agents" in remarks
    assert "and 3 more" in remarks


async def test_a_submodule_pointer_is_refused_by_its_path(inert: Git, origin: Origin) -> None:
    git("update-index", "--add", "--cacheinfo", f"160000,{'7' * 40},vendor/lib", cwd=origin.clone)
    git("commit", "-q", "-m", "gitlink", cwd=origin.clone)
    git("rm", "-q", "--cached", "vendor/lib", cwd=origin.clone)
    head = origin.commit({"a.py": "two\n"})
    with pytest.raises(PublishError, match="'vendor/lib'") as refusal:
        await scan(inert, origin.clone / ".git", origin.base, head)
    assert refusal.value.reason == "gitlink"


async def test_a_file_larger_than_the_forge_takes_is_refused_though_its_pack_is_tiny(inert: Git, origin: Origin) -> None:
    with (origin.clone / "zeros").open("wb") as file:
        os.truncate(file.fileno(), 3 << 20)
    origin.commit({})
    head = origin.commit({"zeros": None})
    assert sum(p.stat().st_size for p in Path(origin.clone, ".git", "objects").rglob("*") if p.is_file()) < 100_000
    with pytest.raises(PublishError, match="'zeros' has 3,145,728 bytes") as refusal:
        await scan(inert, origin.clone / ".git", origin.base, head, max_blob_bytes=1 << 20)
    assert refusal.value.reason == "blob_too_big"
    assert (await scan(inert, origin.clone / ".git", origin.base, head)).commits == 2


async def test_attributes_and_drivers_in_the_commits_run_nothing(inert: Git, origin: Origin, tmp_path: Path) -> None:
    trap = tmp_path / "ran"
    for key in ("diff.evil.textconv", "diff.evil.command", "filter.evil.clean", "diff.external"):
        git("config", key, f"touch {trap} #", cwd=origin.clone)
    git("config", "--unset", "filter.evil.clean", cwd=origin.clone)
    head = origin.commit({".gitattributes": "* diff=evil\n", "a.py": "two\n"})
    git("log", "-p", "--ext-diff", cwd=origin.clone, ok=False)
    assert trap.exists(), "the control runs the driver"
    trap.unlink()
    await scan(inert, origin.clone / ".git", origin.base, head)
    assert not trap.exists()


PUBLISH = Permits()


async def refused(inert: Git, origin: Origin, head: str, permits: Permits = PUBLISH) -> PublishError:
    with pytest.raises(PublishError) as refusal:
        await scan(inert, origin.clone / ".git", origin.base, head, permits=permits)
    assert "nothing was pushed" in str(refusal.value)
    return refusal.value


@pytest.mark.parametrize(
    "path", [".github/workflows/x.yml", ".GitHub/Workflows/x.yml", ".gitlab-ci.yml", ".forgejo/workflows/a/b.yml", "Jenkinsfile"]
)
async def test_a_workflow_file_is_refused_by_name_even_when_a_later_commit_removes_it(
    inert: Git, origin: Origin, path: str
) -> None:
    origin.commit({path: "on: push\n"})
    head = origin.commit({path: None})
    refusal = await refused(inert, origin, head)
    assert refusal.reason == "workflow_file"
    assert path in str(refusal)
    assert "--allow-workflows" in str(refusal)
    allowed = await scan(inert, origin.clone / ".git", origin.base, head, permits=Permits(workflows=True))
    assert allowed.remarks == (f"It touches workflow files, which run on the forge: `{path}`.",)


async def test_what_lies_outside_the_scope_is_refused_by_name_in_every_commit(inert: Git, origin: Origin) -> None:
    origin.commit({"src/a.py": "1\n", "SRC/b.py": "2\n"})
    head = origin.commit({"SRC/b.py": None})
    refusal = await refused(inert, origin, head, Permits(scope=("src/**",)))
    assert refusal.reason == "outside_scope"
    assert "SRC/b.py" in str(refusal)
    assert "src/a.py" not in str(refusal)
    for scope in (("src/**", "SRC"), ("*.py",), ("[sS][rR][cC]/*",), ("{src,SRC}/",), ()):
        found = await scan(inert, origin.clone / ".git", origin.base, head, permits=Permits(scope=scope))
        assert [change.path for change in found.changes] == ["src/a.py"]


async def test_a_removed_submodule_or_another_source_for_one_is_refused(inert: Git, origin: Origin) -> None:
    head = origin.commit({".gitmodules": '[submodule "a"]\n\tpath = a\n\turl = https://forge.invalid/a.git\n'})
    refusal = await refused(inert, origin, head)
    assert "'.gitmodules'" in str(refusal)
    assert "--allow-submodules" in str(refusal)
    git("update-index", "--add", "--cacheinfo", f"160000,{'7' * 40},a", cwd=origin.clone)
    git("commit", "-q", "-m", "gitlink", cwd=origin.clone)
    based = git("rev-parse", "HEAD", cwd=origin.clone)
    git("rm", "-q", "--cached", "a", cwd=origin.clone)
    gone = origin.commit({"a.py": "two\n"})
    with pytest.raises(PublishError, match="removes the submodule 'a'"):
        await scan(inert, origin.clone / ".git", based, gone)
    found = await scan(inert, origin.clone / ".git", origin.base, gone, permits=Permits(submodules=True))
    assert found.remarks[-1] == "It changes submodules: `a`."
