from __future__ import annotations

import json

from agent_harness.demo.model import SCRIPT, demo_model
from agent_harness.demo.repository import make_repository
from agent_harness.demo.script import ChatRequest, Json, ScriptedReply
from agent_harness.events import JsonValue

REPOSITORY = make_repository(1)
RM = "Refused by guard:rm: it deletes outside of the worktree.\nInstead: name a path in it"
PUSH = "Refused by guard:push: it targets the default branch."
TESTS_RUN = "Ran 4 tests in 0.001s\n\n"


def answer(name: str, arguments: Json, runs: list[str], refusals: dict[str, str]) -> str:
    """What the tools would say, as far as the stand-in looks at it."""
    command = str(arguments.get("command"))
    match name:
        case "list_files":
            return "\n".join(sorted(REPOSITORY.files))
        case "read_file":
            lines = REPOSITORY.files[str(arguments["path"])].splitlines()
            return "\n".join(f"{number}\t{line}" for number, line in enumerate(lines, 1))
        case "ripgrep":
            return f"tests/test_labels.py:7:    def {REPOSITORY.failing}(self):"
        case "run_shell" if "unittest" in command:
            return runs.pop(0)
        case "run_shell":
            return refusals.get(command.split()[0], "(no output)\n[exit code 0]")
        case _:
            return "[exit code 0]"


def play(runs: list[str], refusals: dict[str, str]) -> tuple[list[Json], list[str]]:
    """The stand-in's whole conversation: its messages, and what it says at each step."""
    tools: list[JsonValue] = [{"type": "function", "function": {"name": "run_shell"}}]
    messages: list[JsonValue] = [{"role": "user", "content": "go"}]
    said: list[str] = []
    for _ in range(20):
        body: Json = {"messages": messages, "tools": tools}
        reply: ScriptedReply = demo_model(ChatRequest(1, body, b"", {}))
        said.append(reply.text)
        if not reply.calls:
            return [message for message in messages if isinstance(message, dict)], said
        calls: list[JsonValue] = []
        results: list[JsonValue] = []
        for call in reply.calls:
            assert isinstance(call.arguments, dict)
            call_id = f"c{len(messages)}_{len(calls)}"
            calls.append({"id": call_id, "function": {"name": call.name, "arguments": json.dumps(call.arguments)}})
            content = answer(call.name, call.arguments, runs, refusals)
            results.append({"role": "tool", "tool_call_id": call_id, "content": content})
        messages.append({"role": "assistant", "content": reply.text, "tool_calls": calls})
        messages.extend(results)
    raise AssertionError("the stand-in does not come to an end")


FAILING = f"FAIL: {REPOSITORY.failing} (tests.test_x.T)\nAssertionError: 1 != 2\n{TESTS_RUN}FAILED (failures=1)"
PASSING = f"{TESTS_RUN}OK"


def test_it_quotes_what_it_was_sent() -> None:
    _, said = play([FAILING, PASSING], {"rm": RM, "git": PUSH})
    assert "No LLM is involved" in said[0]
    assert any(RM.splitlines()[0] in words for words in said)
    assert any(PUSH in words for words in said)
    assert any(f"{REPOSITORY.failing} fails (AssertionError: 1 != 2)" in words for words in said)
    for part in (REPOSITORY.failing, REPOSITORY.wrong.strip(), REPOSITORY.right.strip(), "no LLM", "`rm -rf ~` was refused"):
        assert part in said[-1]
    assert len(said) == len(SCRIPT) + 1


def test_it_says_so_when_something_was_not_refused() -> None:
    _, said = play([FAILING, PASSING], {"rm": RM})
    assert "`git push origin main` was NOT refused" in said[-1]


def test_it_does_not_edit_when_no_test_fails() -> None:
    messages, said = play([PASSING], {"rm": RM, "git": PUSH})
    assert "no test fails" in said[-1]
    assert "edit_file" not in json.dumps(messages)


def test_it_does_not_commit_when_the_tests_still_fail() -> None:
    messages, said = play([FAILING, FAILING], {"rm": RM, "git": PUSH})
    assert "still fail" in said[-1]
    assert '"git"' not in json.dumps(messages)
