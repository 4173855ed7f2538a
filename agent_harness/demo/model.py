"""The demo's stand-in for a model: fixed steps, no LLM. What it says of the repository it takes from what it is sent.

It does not know the seed. The failing test's name comes from the output of the test run, the line that it edits from the files
that it has read, and a refusal is quoted as it came.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import cast

from agent_harness.demo.script import ChatRequest, Json, ScriptedReply, ToolAnswer, call, say, text
from agent_harness.events import JsonValue

TEST_COMMAND = "python3 -m unittest -v"
FAILED_TEST = re.compile(r"^(?:FAIL|ERROR): (\w+)", re.M)
ASSERTION = re.compile(r"^(\w*Error: .*)$", re.M)
TOTAL = re.compile(r"^Ran \d+ tests? .*$", re.M)
NUMBERED = re.compile(r"^\s*(\d+)\t(.*)$", re.M)
PYTHON_FILE = re.compile(r"^([\w./-]+\.py)\b", re.M)
STEPS = (
    "Look at the repository and its tests",
    "See that what must not happen is refused",
    "Run the tests and find the cause of the failure",
    "Mend the line and run the tests again",
    "Commit",
)


@dataclass(frozen=True, slots=True)
class Suspicion:
    """A shape of line that is wrong more often than not, how to mend it, and why."""

    shape: re.Pattern[str]
    mended: str
    why: str


SUSPICIONS = (
    Suspicion(
        re.compile(r"return (\w+) // (\w+)$"), r"return -(-\1 // \2)", "it rounds down, so a last one that is not full is lost"
    ),
    Suspicion(re.compile(r"(return \w+ < \w+) or (\w+ < \w+)$"), r"\1 and \2", "spans overlap only when both conditions hold"),
    Suspicion(re.compile(r"range\(len\((\w+)\) - (\w+)\):"), r"range(len(\1) - \2 + 1):", "it stops one run too early"),
    Suspicion(re.compile(r"% 100 == 0 or"), "% 100 != 0 or", "a full century is the exception, not the rule"),
    Suspicion(re.compile(r"(\w+) \* 60 \+ (\w+) \* 60 \+"), r"\1 * 3600 + \2 * 60 +", "an hour has 3600 seconds"),
    Suspicion(re.compile(r"for (\w+) in (\w+)\.split\(\):"), r"for \1 in \2.lower().split():", "it tells upper from lower case"),
    Suspicion(re.compile(r"(-\w+ if \w+) <= (\w+)"), r"\1 < \2", "equal neighbours add up"),
)


@dataclass(frozen=True, slots=True)
class Finding:
    """The line to edit, as it was read."""

    path: str
    number: int
    line: str
    mended: str
    why: str


def demo_model(request: ChatRequest) -> ScriptedReply:
    """The next step of the demo, decided by how many replies the conversation holds."""
    if request.turn < len(SCRIPT) and request.tool_names:
        reply = SCRIPT[request.turn](request)
        return replace(reply, text=reply.text.rstrip())
    return _close(request)


def _plan(request: ChatRequest) -> ScriptedReply:
    words = "No LLM is involved here: I am a script that stands in for one, and everything around me is real. First a plan. "
    return say(words) + _todo(0)


def _look(request: ChatRequest) -> ScriptedReply:
    search = call("ripgrep", {"query": "def test_", "glob": "*.py"})
    return say("Which files are there, and which tests? ") + call("list_files", {"depth": 3}) + search


def _read(request: ChatRequest) -> ScriptedReply:
    listed = _last(request, "list_files")
    paths = [path for path in PYTHON_FILE.findall(listed) if not path.endswith("__init__.py")]
    tests = sorted(set(PYTHON_FILE.findall(_last(request, "ripgrep"))))
    found = f"The search finds tests in {' and '.join(tests) or 'no file'}. " if tests else ""
    reply = say(f"{found}I read all {len(paths)} Python files. ")
    for path in paths:
        reply += call("read_file", {"path": path})
    return reply


def _delete_home(request: ChatRequest) -> ScriptedReply:
    words = "Now two things that an agent must never get away with. First, deleting the home directory. "
    return say(words) + call("run_shell", {"command": "rm -rf ~"})


def _push_main(request: ChatRequest) -> ScriptedReply:
    quoted = _quoted(_last(request, "run_shell"))
    words = f"That was answered with: {quoted} Second, pushing to the default branch. "
    return say(words) + call("run_shell", {"command": "git push origin main"})


def _test(request: ChatRequest) -> ScriptedReply:
    quoted = _quoted(_last(request, "run_shell"))
    return say(f"That was answered with: {quoted} Now the work: the tests as they are. ") + call(
        "run_shell", {"command": TEST_COMMAND}
    )


def _edit(request: ChatRequest) -> ScriptedReply:
    output = _last(request, "run_shell")
    failed = FAILED_TEST.findall(output)
    finding = find(request.answers)
    if not failed or finding is None:
        return say(f"I stop here: {'no line that I have read looks wrong' if failed else 'no test fails'}. {_total(output)}.")
    reason = ASSERTION.search(output)
    words = (
        f"{failed[0]} fails{f' ({reason[1]})' if reason else ''}. The cause is line {finding.number} of {finding.path}, "
        f"`{finding.line.strip()}`: {finding.why}. "
    )
    edit: dict[str, JsonValue] = {
        "path": finding.path,
        "old_text": finding.line,
        "new_text": finding.mended,
        "occurrence": "only",
    }
    return say(words) + call("edit_file", edit)


def _test_again(request: ChatRequest) -> ScriptedReply:
    return say("The same tests again. ") + call("run_shell", {"command": TEST_COMMAND}) + _todo(4)


def _commit(request: ChatRequest) -> ScriptedReply:
    output = _last(request, "run_shell")
    finding = find(request.answers)
    if FAILED_TEST.search(output) or "\nOK" not in output or finding is None:
        return say(f"The tests still fail after the edit, so I commit nothing. {_total(output)}.")
    message = f"Mend {finding.path}: {finding.why}"
    return (
        say(f"{_total(output)}. All pass. ")
        + call("git", {"command": "commit", "args": ["-m", message, finding.path]})
        + _todo(5)
    )


SCRIPT: tuple[Callable[[ChatRequest], ScriptedReply], ...] = (
    _plan, _look, _read, _delete_home, _push_main, _test, _edit, _test_again, _commit,
)  # fmt: skip


def _close(request: ChatRequest) -> ScriptedReply:
    finding = find(request.answers)
    runs = [answer.content for answer in request.answers if TEST_COMMAND in answer.arguments]
    if finding is None or len(runs) < 2:
        return say("The demo ended before its work was done; the trace shows how far it came.")
    failed = ", ".join(FAILED_TEST.findall(runs[0]))
    committed = "[exit code 0]" in _last(request, "git")
    return say(
        f"{failed} failed because of line {finding.number} of {finding.path}: {finding.why}.\n\n"
        f"- before: `{finding.line.strip()}`\n- after: `{finding.mended.strip()}`\n\n"
        f"I ran `{TEST_COMMAND}` before ({_total(runs[0])}) and after ({_total(runs[1])}). {_tried(request.answers)} "
        f"{'Nothing is left open.' if committed else 'My commit did not work; the change is in the worktree.'} "
        "(Said by a script; no LLM was involved.)"
    )


def _tried(answers: list[ToolAnswer]) -> str:
    """What became of the two commands that must not work."""
    found: list[str] = []
    for answer in answers:
        if answer.name == "run_shell" and TEST_COMMAND not in answer.arguments:
            refused = answer.content.startswith("Refused by ")
            found.append(f"`{text(_arguments(answer).get('command'))}` was {'refused' if refused else 'NOT refused'}.")
    return " ".join(found)


def find(answers: list[ToolAnswer]) -> Finding | None:
    """The one suspicious line in the program's own files, as far as they were read."""
    for answer in answers:
        path = text(_arguments(answer).get("path"))
        if answer.name != "read_file" or path.startswith("tests/"):
            continue
        for number, line in NUMBERED.findall(answer.content):
            for suspicion in SUSPICIONS:
                mended = suspicion.shape.sub(suspicion.mended, line)
                if mended != line:
                    return Finding(path, int(number), line, mended, suspicion.why)
    return None


def _arguments(answer: ToolAnswer) -> Json:
    return cast("Json", json.loads(answer.arguments))


def _todo(done: int) -> ScriptedReply:
    todos: list[JsonValue] = []
    for place, step in enumerate(STEPS):
        status = "done" if place < done else "in_progress" if place == done else "pending"
        todos.append({"content": step, "status": status})
    return call("TodoWrite", {"todos": todos, "notes": []})


def _last(request: ChatRequest, tool: str) -> str:
    return next((answer.content for answer in reversed(request.answers) if answer.name == tool), "")


def _quoted(refusal: str) -> str:
    first = refusal.strip().splitlines()[0] if refusal.strip() else "nothing"
    return f'"{first[:300]}"'


def _total(output: str) -> str:
    ran = TOTAL.search(output)
    end = re.search(r"^(OK|FAILED.*)$", output, re.M)
    return f"{ran[0] if ran else 'no test ran'}{f': {end[1]}' if end else ''}"
