"""The push guard, by kind of command."""

from __future__ import annotations

import pytest

from agent_harness.world import GitFacts
from tests.fakes.data_world import BRANCH, HOME, ROOT, DataWorld, facts
from tests.fakes.judging import git_verdict, refused, verdict


def on(branch: str | None = BRANCH, default: str = "main", **more: object) -> DataWorld:
    return DataWorld(repository=facts(branch, default, **more))


PROTECTED = [
    "git push origin main",
    "git push origin master",
    "git push origin topic:main",
    "git push origin HEAD:refs/heads/main",
    "git push origin HEAD:heads/main",
    "git push origin +main",
    "git push origin topic main",
    "git push origin HEAD:MAIN",
    "git push https://example.com/x.git HEAD:main",
    "git push elsewhere main",
    "git push origin :main",
    "git push --delete origin main",
    "git push -d origin topic main",
    "git push --dele origin main",
    "git push -o ci.skip origin main",
    "git push --push-option ci.skip origin main",
    "git push origin HEAD:HEAD",
    "git -C . push origin main",
    "git --no-pager -c a.b=c push origin main",
    "git push -- origin main",
    "b=main; git push origin topic:$b",
    "for b in topic main; do git push origin $b; done",
    'f() { git push origin "$1"; }; f main',
    "git push origin $(echo main)",
    "sh -c 'git push origin \"$1\"' x main",
    "git checkout main && git push origin HEAD",
    "git switch -c main; git push origin HEAD",
    "git branch -m main && git push origin @",
    "git checkout --track origin/main && git push origin HEAD",
    "python3 -c \"import git; git.Repo('.').remotes.origin.push('main')\"",
    "git symbolic-ref HEAD refs/heads/main; git push origin HEAD",
    "git -c alias.up='push origin main' up",
    "git -c alias.up='!git push origin main' up",
    "git config alias.up 'push origin main'",
    "git submodule foreach 'git push origin main'",
    "git rebase --exec 'git push origin main' topic",
    "git bisect run sh -c 'git push origin main'",
    "git send-pack origin HEAD:refs/heads/main",
    "git subtree push --prefix dist origin main",
    "/usr/lib/git-core/git-push origin main",
    "cp /usr/bin/git ./g && ./g push origin main",
    "python3 -c \"import subprocess; subprocess.run(['git', 'push', 'origin', 'main'])\"",
    "python3 -c \"import os; os.system('git push origin main')\"",
    "echo 'git push origin main' | sh",
    "printf 'git push origin main\\n' > .git/hooks/post-commit",
    "make -f - <<'E'\nall:\n\t@git push origin main\nE",
]

WIDE = [
    "git push --all",
    "git push --mirror origin",
    "git push --mir origin",
    "git push --branches origin",
    "git push origin :",
    "git push origin '+refs/heads/*:refs/heads/*'",
    "git push origin 'refs/heads/m*:refs/heads/m*'",
    "git push",
    "git push origin",
    "git push --force",
    "git push -u origin",
    "git push --follow-tags",
    "git push --repo=origin",
    "git commit -m x && git push",
]

UNKNOWN = [
    'git push origin "HEAD:$UNSET"',
    'git push "$UNSET" topic',
    "git push origin $(some-program)",
    "git $(some-program) origin main",
    "git checkout $(some-program) && git push origin HEAD",
    "git -C ../other push origin HEAD",
    "cd ../other && git push origin HEAD",
    "cd vendor/lib && git push origin HEAD",
    "git clone https://example.com/x.git new && cd new && git push origin HEAD",
    "git init new; cd new && git push origin HEAD",
    "git push --frobnicate origin topic",
    "GIT_CONFIG_GLOBAL=x git push origin topic",
    "git config include.path x; git push origin topic",
    "git -c push.default=upstream push origin topic",
    "git -c core.hooksPath=/x push origin topic",
    "git push --no-verify origin topic",
    "git --exec-path=x push origin topic",
    "git config push.default matching",
    "git config remote.origin.push refs/heads/topic:refs/heads/main",
]

ROUTES = [
    "gh pr merge 3 --squash",
    "gh --repo a/b pr merge 3",
    "gh repo sync",
    "gh repo delete a/b",
    "gh api -X PATCH repos/a/b/git/refs/heads/main -f sha=1",
    "gh api repos/a/b/git/refs -f ref=refs/heads/main -f sha=1",
    "gh api --method PUT repos/a/b/contents/x -f content=eA==",
    "gh api -X PUT /repos/a/b/pulls/3/merge",
    "gh api graphql -f query='mutation { mergePullRequest(input: {}) { clientMutationId } }'",
    "curl -X DELETE https://api.github.com/repos/a/b/git/refs/heads/main",
    'curl -d \'{"base": "main"}\' https://api.github.com/repos/a/b/merges',
    "wget --method=PATCH https://api.github.com/repos/a/b/git/refs/heads/main",
    "jj git push --all",
    "jj git push -b main",
    "git svn dcommit",
    "glab mr merge 3",
]

ALLOWED = [
    f"git push origin {BRANCH}",
    f"git push -u origin HEAD:refs/heads/{BRANCH}",
    "git push origin HEAD",
    "git push origin @:topic",
    "git push -f origin topic",
    "git push --force-with-lease origin topic",
    "git push origin --delete topic",
    "git push origin main:backup",
    "git push origin main-menu feature/main",
    "git push origin v1.0 refs/tags/main",
    "git push origin HEAD:refs/for/main",
    "git push origin tag v1",
    "git push --tags",
    "git push origin 'refs/heads/agent/*:refs/heads/agent/*'",
    "git push -v -o main origin topic",
    "git push --help; git help push",
    'b=topic; git push origin "HEAD:refs/heads/$b"',
    "git checkout -b topic2 && git push -u origin HEAD",
    'git push -u origin "$(git branch --show-current)"',
    "git push -u origin $(git rev-parse --abbrev-ref HEAD)",
    "git -C ../other push origin HEAD:refs/heads/topic",
    "git push origin topic || git push -f origin topic",
    "git stash push -m main",
    "git fetch origin main && git rebase origin/main",
    "git merge main; git log main..HEAD; git diff main",
    "git branch -f main origin/main",
    "git config user.name x && git push origin topic",
    "git config --get remote.origin.push",
    "git lfs push origin main",
    "git subtree push --prefix dist origin gh-pages",
    "gh pr create --base main --title x --body y",
    "gh pr list --base main",
    "gh api repos/a/b/git/refs/heads/main",
    "gh api -X PATCH repos/a/b/git/refs/heads/topic -f sha=1",
    "gh api -X PUT repos/a/b/contents/x -f branch=topic -f content=eA==",
    "curl -s https://api.github.com/repos/a/b/branches/main",
    "jj git push -b topic",
    "make release",
]


@pytest.mark.parametrize("command", PROTECTED)
def test_a_push_to_a_protected_branch_is_refused_by_name(command: str) -> None:
    found = verdict(command)
    assert found.rule == "push.protected", found
    assert found.by == "guard:push"


@pytest.mark.parametrize("command", WIDE)
def test_a_push_that_names_no_destination_is_refused_with_the_exact_command(command: str) -> None:
    found = verdict(command)
    assert found.by == "guard:push", found
    assert f"git push -u origin HEAD:refs/heads/{BRANCH}" in found.instead


@pytest.mark.parametrize("command", UNKNOWN)
def test_a_push_whose_destination_nobody_can_know_is_refused(command: str) -> None:
    assert verdict(command).by == "guard:push", verdict(command)


@pytest.mark.parametrize("command", ROUTES)
def test_other_ways_to_a_protected_branch_are_refused(command: str) -> None:
    assert verdict(command).by == "guard:push", verdict(command)


@pytest.mark.parametrize("command", ALLOWED)
def test_work_on_other_branches_passes(command: str) -> None:
    assert not refused(command), verdict(command)


def test_the_command_that_a_refusal_recommends_passes() -> None:
    advice = verdict("git push").instead
    assert not refused(advice[advice.index("git push -u") :])


def test_head_counts_as_the_branch_that_is_checked_out() -> None:
    assert refused("git push origin HEAD", on("main"))
    assert refused("git push -u origin $(git branch --show-current)", on("main"))
    assert refused("git push origin HEAD", on(None))
    assert not refused("git push origin HEAD:topic", on("main"))
    assert not refused("git switch -c fresh && git push origin HEAD", on("main"))
    assert refused("git switch -c fresh; git push origin HEAD", on("main"))


def test_the_default_branch_is_protected_whatever_its_name() -> None:
    assert refused("git push origin release/2", on(default="release/2"))
    assert refused("git push origin main", on(default="release/2"))
    assert not refused("git push origin release/2-fix", on(default="release/2"))


@pytest.mark.parametrize(
    "config",
    [
        {"push.default": ("upstream",), f"branch.{BRANCH}.merge": ("refs/heads/main",)},
        {"remote.origin.push": (f"refs/heads/{BRANCH}:refs/heads/main",)},
        {"remote.origin.push": ("refs/heads/agent/*:refs/heads/main",)},
        {"remote.origin.mirror": ("true",)},
    ],
)
def test_configuration_that_remaps_a_name_is_read(config: dict[str, tuple[str, ...]]) -> None:
    world = on(config=config)
    assert refused(f"git push origin {BRANCH}", world)
    assert "mirror" in str(config) or not refused(f"git push origin HEAD:refs/heads/{BRANCH}", world)


def test_a_local_branch_that_is_a_link_to_main_is_main() -> None:
    assert refused(f"git push origin {BRANCH}", on(symrefs={f"refs/heads/{BRANCH}": "refs/heads/main"}))


def test_an_alias_of_the_repository_is_resolved() -> None:
    world = on(config={"alias.ship": ("push origin",), "alias.out": ("!git ship main",), "alias.lg": ("log --oneline",)})
    assert refused("git out", world)
    assert refused("git ship main", world)
    assert not refused("git ship topic", world)
    assert not refused("git lg main..HEAD", world)


def test_aliases_that_call_each_other_are_refused() -> None:
    world = on(config={"alias.a": ("b",), "alias.b": ("a",)})
    assert verdict("git a", world).rule.endswith("unanalysed")


def test_configuration_in_the_environment_is_read() -> None:
    env = {"HOME": HOME, "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "alias.p", "GIT_CONFIG_VALUE_0": "push"}
    assert refused("git p origin main", DataWorld(env=env))
    assert refused("GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=alias.p GIT_CONFIG_VALUE_0=push git p origin main")


def test_git_is_asked_only_when_the_line_can_need_it() -> None:
    world = DataWorld()
    assert not refused("ls; make; rm -rf build", world)
    assert world.asked == 0


def test_the_git_tool_is_judged_like_the_shell() -> None:
    assert git_verdict("push", "origin", "main").rule == "push.protected"
    assert git_verdict("push").rule == "push.bare"
    assert git_verdict("-c", "alias.p=push", "p", "origin", "main").rule == "push.protected"
    assert not git_verdict("push", "origin", BRANCH).rule
    assert not git_verdict("commit", "-m", "git push origin main").rule
    assert not git_verdict("push", "origin", f"{BRANCH}; git push origin main").rule


def test_facts_that_cannot_be_read_refuse_a_push() -> None:
    class Broken(DataWorld):
        def git(self) -> GitFacts:
            raise OSError("no repository")

    found = verdict("git push origin topic", Broken(cwd=ROOT))
    assert found.rule == "push.unanalysed" or found.rule == "rm.unanalysed"
    assert "OSError" in found.reason
