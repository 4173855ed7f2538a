"""What the stand-in for GitHub refuses of a push, one test for each row; raw git, without any client of ours."""

from __future__ import annotations

import pytest

from tests.fakes.github_forge_state import PUBLISHER, Ruleset, Shape
from tests.fakes.github_wire import World
from tests.unit.publishing.repos import BRANCH, REF

WORKFLOW = ".github/workflows/x.yml"


def push(world: World, *refs: str) -> str:
    code, said = world.git("push", world.url, *(refs or (f"HEAD:{REF}",)))
    assert code != 0, said
    assert world.repo.sha(BRANCH) is None
    return said


def test_a_ruleset_refuses_with_its_bullets_and_only_its_branches(world: World) -> None:
    world.origin.commit({"a.py": "two\n"})
    world.repo.rulesets = (Ruleset("agent/*"), Ruleset("agent/*", "Changes must be made through a pull request."))
    said = push(world)
    assert f"remote: error: GH013: Repository rule violations found for {REF}." in said
    assert "remote: - Commits must have verified signatures." in said
    assert "remote: - Changes must be made through a pull request." in said
    assert "(push declined due to repository rule violations)" in said
    assert world.git("push", world.url, "HEAD:refs/heads/other")[0] == 0


def test_a_secret_is_refused_also_when_a_later_commit_takes_it_away(world: World) -> None:
    world.repo.push_protection = ("planted-secret-1",)
    found = world.origin.commit({"key.txt": "planted-secret-1\n"})
    world.origin.commit({"key.txt": None})
    said = push(world)
    assert "GITHUB PUSH PROTECTION" in said
    assert f"commit: {found}" in said
    assert "path: key.txt:1" in said
    assert "unblock-secret" in said
    assert "(push declined due to repository rule violations)" in said


def test_a_file_over_the_limit_is_refused_with_its_size(world: World) -> None:
    world.repo.max_blob_bytes = 1 << 20
    world.origin.commit({"big.txt": "x" * (1 << 20), "fits.txt": "y"})
    assert world.git("push", world.url, "HEAD:refs/heads/fits")[0] == 0
    world.origin.commit({"big.txt": "x" * (3 << 19)})
    said = push(world)
    assert "File big.txt is 1.50 MB; this exceeds GitHub's file size limit of 1.00 MB" in said
    assert "remote: error: GH001: Large files detected." in said
    assert "(pre-receive hook declined)" in said


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        ("installation", f"a GitHub App to create or update workflow `{WORKFLOW}` without `workflows` permission"),
        ("classic", f"a Personal Access Token to create or update workflow `{WORKFLOW}` without `workflow` scope"),
    ],
)
def test_a_workflow_file_in_any_new_commit_takes_a_permission_of_its_own(world: World, shape: Shape, words: str) -> None:
    world.token = world.forge.token(shape)
    world.origin.commit({WORKFLOW: "on: push\n"})
    world.origin.commit({WORKFLOW: None})
    assert f"(refusing to allow {words})" in push(world)
    world.token = world.forge.token(shape, {**PUBLISHER, "workflows": "write"})
    assert world.git("push", world.url, f"HEAD:{REF}")[0] == 0


def test_a_workflow_file_that_is_there_already_is_in_nobody_s_way(world: World) -> None:
    world.token = world.forge.token(permissions={**PUBLISHER, "workflows": "write"})
    world.origin.commit({WORKFLOW: "on: push\n"})
    assert world.git("push", world.url, "HEAD:refs/heads/first")[0] == 0
    world.token = world.forge.token()
    world.origin.commit({"a.py": "two\n"})
    assert world.git("push", world.url, f"HEAD:{REF}")[0] == 0


def test_one_refused_branch_refuses_the_whole_push(world: World) -> None:
    world.repo.protected = ("main",)
    world.origin.commit({"a.py": "two\n"})
    said = push(world, f"HEAD:{REF}", "HEAD:refs/heads/main")
    assert "(protected branch hook declined)" in said
    assert "(atomic transaction failed)" in said


def test_a_branch_that_exists_is_moved_by_no_push_that_says_it_must_not(world: World) -> None:
    head = world.pushed()
    world.origin.commit({"a.py": "three\n"})
    code, said = world.git("push", "--atomic", f"--force-with-lease={REF}:", world.url, f"HEAD:{REF}")
    assert code != 0
    assert "stale info" in said
    assert world.repo.sha(BRANCH) == head
    assert world.repo.updates == [(REF, head)]


def test_a_branch_named_like_a_folder_of_others_is_in_their_way(world: World) -> None:
    world.origin.commit({"a.py": "two\n"})
    assert world.git("push", world.url, "HEAD:refs/heads/agent")[0] == 0
    assert "cannot lock ref" in push(world) or "directory file conflict" in push(world)


def test_a_push_from_a_shallow_clone_without_the_parent_is_refused(world: World) -> None:
    deep = world.origin.clone.parent / "shallow"
    world.repo.private = False
    other = world.forge.add_repository("octo/other", None)
    world.origin.commit({"a.py": "two\n"})
    assert world.git("clone", "-q", "--depth", "1", world.origin.clone.as_uri(), str(deep))[0] == 0
    code, said = world.git("push", f"{world.forge.url}/octo/other.git", f"HEAD:{REF}", cwd=deep)
    assert code != 0
    assert "shallow update not allowed" in said
    assert other.empty
