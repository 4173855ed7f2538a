"""Several hooks, broken hooks, rewriting hooks; what a hook is told, and what it never gets to know."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent_harness.errors import ConfigError
from agent_harness.settings import HOOK_EVENTS, HookEvent
from tests.unit.hooks.rig import CALL, HookRig

pytestmark = pytest.mark.anyio

SECRET = "sesame-4711-planted"
ALLOW = """echo '{"permissionDecision": "allow", "block": false}'"""


def block(reason: str) -> str:
    return f"""echo '{{"block": true, "reason": "{reason}"}}'"""


def rewrite(command: str) -> str:
    return f"""echo '{{"hookSpecificOutput": {{"hookEventName": "PreToolUse", "updatedInput": {{"command": "{command}"}}}}}}'"""


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2)])
async def test_any_refusal_wins_in_any_order_and_all_reasons_are_shown(rig: HookRig, order: tuple[int, ...]) -> None:
    commands = [ALLOW, block("first"), block("second")]
    for number in order:
        rig.add(commands[number])
    answer = await rig.fire()
    assert answer.blocked
    assert set(answer.reason.split("; ")) == {"first", "second"}
    assert [ran.decision for ran in rig.ran()].count("block") == 2


async def test_every_hook_runs_although_one_refuses(rig: HookRig) -> None:
    rig.add(block("no"))
    rig.add(f"sleep 0.2; touch {rig.folder}/audited")
    assert (await rig.fire()).blocked
    assert (rig.folder / "audited").exists()


BROKEN = {
    "exit 1": ("echo no-thanks >&2; exit 1", "it exited with 1: no-thanks"),
    "killed": ("kill -9 $$", "signal 9"),
    "bad JSON": ('echo \'{"decision": "all\'', "begins like JSON"),
    "hangs": ("sleep 64", "did not answer within"),
}


@pytest.mark.parametrize("event", HOOK_EVENTS)
@pytest.mark.parametrize(("command", "words"), BROKEN.values(), ids=BROKEN)
async def test_a_broken_hook_refuses_a_call_or_a_prompt_and_is_reported_elsewhere(
    rig: HookRig, event: HookEvent, command: str, words: str
) -> None:
    rig.add(command, event, timeout_s=0.3)
    answer = await rig.fire(event=event)
    assert answer.blocked == (event in ("PreToolUse", "UserPromptSubmit"))
    assert answer.blocked == answer.reason.startswith("hook broken: ")
    assert words in answer.broken
    assert words in rig.ran()[0].reason
    assert not answer.stop


@pytest.mark.parametrize(("command", "words"), BROKEN.values(), ids=BROKEN)
async def test_a_hook_may_be_set_to_fail_open(rig: HookRig, command: str, words: str) -> None:
    rig.add(command, timeout_s=0.3, fail_open=True)
    answer = await rig.fire()
    assert not answer.blocked
    assert rig.ran()[0].decision == "broken"
    assert words in rig.ran()[0].reason


async def test_a_hook_that_removes_itself_is_broken_the_next_time(rig: HookRig) -> None:
    rig.script('rm "$0"')
    rig.add("./policy.sh")
    assert not (await rig.fire()).blocked
    answer = await rig.fire()
    assert answer.blocked
    assert "hook broken: " in answer.reason
    assert "policy.sh' does not exist" in answer.reason


async def test_a_missing_script_of_an_interpreter_is_no_policy_although_it_exits_with_2(rig: HookRig) -> None:
    rig.script("exit 0", "policy.py")
    rig.add("sh ./policy.py")
    rig.hooks().check(None)
    (rig.folder / "policy.py").unlink()
    assert "hook broken: " in (await rig.fire()).reason


async def test_rewrites_follow_one_another_and_every_hook_judges_the_outcome(rig: HookRig) -> None:
    log = rig.folder / "seen"
    rig.script(
        f"""#!/usr/bin/env python3
import json, sys
command = json.load(sys.stdin)["tool_input"]["command"]
with open("{log}", "a") as seen:
    print(sys.argv[1], command, file=seen)
if not command.endswith(sys.argv[1]):
    print(json.dumps({{"modifiedArgs": {{"command": command + " " + sys.argv[1]}}}}))
""",
        "append.py",
    )
    rig.add("./append.py one")
    rig.add(ALLOW)
    rig.add("./append.py two")
    answer = await rig.fire()
    assert answer.updated_input == {"command": "ls one two"}
    assert answer.by == "hook:append.py"
    seen = sorted(log.read_text().splitlines())
    assert seen == ["one ls", "one ls one two", "two ls", "two ls one", "two ls one two"]


async def test_a_rewrite_is_refused_when_a_hook_would_refuse_what_comes_out(rig: HookRig) -> None:
    rig.script("grep -q forbidden && echo 'not that' >&2 && exit 2\nexit 0", "watch.sh")
    rig.add("./watch.sh")
    assert not (await rig.fire()).blocked
    rig.add(rewrite("forbidden"))
    answer = await rig.fire()
    assert (answer.blocked, answer.reason, answer.updated_input) == (True, "not that", None)


async def test_a_refusal_leaves_no_rewrite(rig: HookRig) -> None:
    rig.add(rewrite("ls -l"))
    rig.add(block("no"))
    answer = await rig.fire()
    assert (answer.blocked, answer.updated_input) == (True, None)


async def test_the_event_echoed_is_no_decision(rig: HookRig) -> None:
    rig.add("cat")
    answer = await rig.fire({**CALL, "permission": "deny"})
    assert (answer.blocked, answer.broken) == (False, "")


@pytest.mark.parametrize("event", HOOK_EVENTS)
async def test_every_event_has_the_common_fields_and_variables(rig: HookRig, event: HookEvent) -> None:
    rig.add(f"cat > {rig.folder}/told; env > {rig.folder}/env; pwd > {rig.folder}/pwd", event)
    await rig.fire({"of_the_event": "é\udc80"}, event)
    told = json.loads((rig.folder / "told").read_text())
    assert told["hook_event_name"] == event
    assert told["of_the_event"] == "é\udc80"
    assert {"session_id", "transcript_path", "cwd", "permission_mode", "agent"} <= set(told)
    assert Path(told["transcript_path"]).is_absolute()
    assert Path(told["cwd"]).is_absolute()
    environment = dict(line.split("=", 1) for line in (rig.folder / "env").read_text().splitlines())
    assert environment["AGENT_HOOK_EVENT"] == event
    assert environment["AGENT_WORKTREE"] == environment["CLAUDE_PROJECT_DIR"] == str(rig.folder / "worktree")
    assert (rig.folder / "pwd").read_text().strip() == str(rig.folder)


async def test_what_a_call_says_of_itself_stands_beside_what_the_session_says(rig: HookRig) -> None:
    rig.add(f"cat > {rig.folder}/told")
    await rig.fire()
    assert json.loads((rig.folder / "told").read_text())["agent"] == {
        "worktree": str(rig.folder / "worktree"),
        "branch": "agent/s1",
        "tool": "run_shell",
    }


async def test_no_credential_is_in_a_hooks_environment(rig: HookRig, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("OPENAI_API_KEY", "GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "DATABASE_URL", "NPM_CONFIG__AUTH")
    planted = dict.fromkeys(names, SECRET)
    rig.environ = {"PATH": "/usr/bin:/bin", "HOME": str(rig.folder), "CLAUDECODE": "1", **planted}
    for name, value in planted.items():
        monkeypatch.setenv(name, value)
    rig.add(f"env > {rig.folder}/env; tr '\\0' '\\n' < /proc/self/environ >> {rig.folder}/env")
    await rig.fire()
    seen = (rig.folder / "env").read_text()
    assert SECRET not in seen
    assert "CLAUDECODE" not in seen
    assert f"HOME={rig.folder}" in seen
    # The control: with the environment passed on as it is, the same look finds all of them.
    from agent_harness.hooks.process import run_hook

    await run_hook(rig.settings[0].command, b"", rig.folder, rig.environ, 10)
    assert (rig.folder / "env").read_text().count(SECRET) >= len(planted)


async def test_without_hooks_nothing_runs_and_nothing_objects(rig: HookRig) -> None:
    rig.add("exit 2", "Stop")
    assert not (await rig.fire()).blocked
    assert not rig.ran()


NAMES = ["a policy.sh", "it's.sh", 'double"quote.sh', "übung.sh", "dollar$x.sh", "star*.sh", "-dash.sh", "a;b.sh"]


@pytest.mark.parametrize("name", NAMES)
async def test_any_file_name_works_when_it_is_quoted(rig: HookRig, name: str) -> None:
    import shlex

    path = rig.script(block("named"), f"my hooks/{name}")
    rig.add(shlex.quote(str(path)))
    rig.hooks().check(rig.folder / "worktree")
    assert (await rig.fire()).reason == "named"


@pytest.mark.parametrize(
    "command",
    [
        "exit 2",
        'grep -q \'"tool_name": "Bash"\' && exit 2; exit 0',
        "X=1 ; exit $((X + 1))",
        "if true; then exit 2; fi",
        "(exit 2)",
        "{ exit 2; }",
        "! true || exit 2",
        "case a in a) exit 2;; esac",
        "cat >/dev/null; exit 2",
        "set -e; exit 2",
        "exec sh -c 'exit 2'",
        "env A=1 sh -c 'exit 2'",
        "PATH=/bin:/usr/bin sh -c 'exit 2'",
        "python3 -c 'raise SystemExit(2)'",
        "$(command -v sh) -c 'exit 2'",
        "while read -r line; do exit 2; done",
        "# it's a comment\nexit 2",
    ],
)
async def test_a_line_of_shell_is_a_hook(rig: HookRig, command: str) -> None:
    rig.add(command)
    rig.hooks().check(rig.folder / "worktree")
    answer = await rig.fire()
    assert (answer.blocked, answer.broken) == (True, "")


def make(rig: HookRig) -> None:
    rig.script("exit 0", "good.sh")
    (rig.folder / "folder").mkdir()
    rig.script("exit 0", "worktree/inside.sh")
    (rig.folder / "worktree" / "link.sh").symlink_to(rig.folder / "good.sh")
    (rig.folder / "link.sh").symlink_to(rig.folder / "worktree" / "inside.sh")
    rig.script("exit 0", "plain.sh").chmod(0o644)
    rig.script("#!/no/such/interpreter\n", "lost.sh")
    rig.script("#!/usr/bin/env no-such-interpreter\n", "lost-env.sh")


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("./missing.sh", ["missing.sh' does not exist", "a test"]),
        ("/no/such/hook --flag", ["'/no/such/hook' does not exist"]),
        ("~/missing.sh", ["/home/missing.sh' does not exist"]),
        ("$HOME/missing.sh", ["/home/missing.sh' does not exist"]),
        ("$NOT_PASSED_ON/good.sh", ["'/good.sh' does not exist"]),
        ("no-such-program x", ["'no-such-program' is not on PATH"]),
        ("./plain.sh", ["plain.sh' is not executable", "chmod +x"]),
        ("./folder", ["folder' does not exist"]),
        ("./lost.sh", ["needs '/no/such/interpreter'"]),
        ("./lost-env.sh", ["needs 'no-such-interpreter'"]),
        ("worktree/inside.sh", ["inside.sh' lies in the agent's worktree"]),
        ("worktree/link.sh", ["link.sh' lies in the agent's worktree"]),
        ("./link.sh", ["link.sh' lies in the agent's worktree"]),
        ("sh worktree/inside.sh", ["inside.sh' lies in the agent's worktree"]),
        ("X=1 exec worktree/inside.sh", ["inside.sh' lies in the agent's worktree"]),
        ("python3 -u missing.py", ["missing.py' does not exist"]),
        ("echo 'unfinished", ["the shell cannot read it", "Unterminated"]),
        ("if true", ["the shell cannot read it"]),
    ],
)
async def test_what_cannot_run_is_named_before_anything_starts(rig: HookRig, command: str, words: list[str]) -> None:
    make(rig)
    rig.environ = {"PATH": "/usr/bin:/bin", "HOME": "/home"}
    rig.add("./good.sh")
    rig.hooks().check(rig.folder / "worktree")
    rig.add(command)
    with pytest.raises(ConfigError) as refused:
        rig.hooks().check(rig.folder / "worktree")
    for expected in (*words, repr(command)):
        assert expected in str(refused.value)
