"""Calls in the words that policy scripts know, and their rewrites back in ours."""

from __future__ import annotations

import pytest

from agent_harness.events import JsonValue
from agent_harness.hooks.payload import after_call, as_ours, before_call
from agent_harness.messages import ToolCall, ToolResult
from agent_harness.world import GitFacts

Json = dict[str, JsonValue]


class Place:
    """The little of a world that payloads need."""

    worktree = "/workspace"
    cwd = "/workspace/sub"
    home = "/home/agent"
    env: dict[str, str] = {}  # noqa: RUF012

    def git(self) -> GitFacts:
        return GitFacts(None, "agent/x", "main")

    def realpath(self, path: str) -> str:
        return path

    def is_link(self, path: str) -> bool:
        return not path

    def is_dir(self, path: str) -> bool:
        return bool(path)

    def glob(self, pattern: str) -> list[str]:
        return [pattern]

    def read_text(self, path: str) -> str | None:
        return path or None


CALLS: list[tuple[str, Json, str, Json]] = [
    ("run_shell", {"command": "ls"}, "Bash", {"command": "ls", "timeout": 30_000}),
    ("run_shell", {"command": "ls", "timeout_s": 5}, "Bash", {"command": "ls", "timeout": 5_000}),
    ("git", {"command": "commit", "args": ["-m", "a b"]}, "Bash", {"command": "git commit -m 'a b'"}),
    ("read_file", {"path": "a.py", "offset": 3, "limit": 4}, "Read", {"file_path": "/workspace/a.py", "offset": 3, "limit": 4}),
    ("read_file", {"path": "./b/../a.py"}, "Read", {"file_path": "/workspace/a.py"}),
    ("read_file", {"path": "/etc/passwd"}, "Read", {"file_path": "/etc/passwd"}),
    ("edit_file", {"path": "n", "old_text": "", "new_text": "x"}, "Write", {"file_path": "/workspace/n", "content": "x"}),
    (
        "edit_file",
        {"path": "a", "old_text": "1", "new_text": "2", "occurrence": "all"},
        "Edit",
        {"file_path": "/workspace/a", "old_string": "1", "new_string": "2", "replace_all": True},
    ),
    ("ripgrep", {"query": "x", "glob": "*.py"}, "Grep", {"pattern": "x", "path": "/workspace", "glob": "*.py"}),
    ("TodoWrite", {"todos": []}, "TodoWrite", {"todos": []}),
]


@pytest.mark.parametrize(("name", "arguments", "known", "fields"), CALLS)
def test_a_call_is_told_in_known_words(name: str, arguments: Json, known: str, fields: Json) -> None:
    told = before_call(ToolCall("c1", name, arguments), Place())
    about = told.pop("agent")
    assert told == {"tool_name": known, "tool_input": fields, "tool_use_id": "c1"}
    assert isinstance(about, dict)
    assert (about["tool"], about["root"], "commands" in about) == (name, "/workspace", known == "Bash")


@pytest.mark.parametrize(
    ("name", "arguments"), [("run_shell", {"command": "cd sub && ls -l > $(date)"}), ("git", {"command": "log"})]
)
def test_a_command_is_told_beside_its_text_as_the_commands_that_it_would_run(name: str, arguments: Json) -> None:
    about = before_call(ToolCall("c1", name, arguments), Place())["agent"]
    assert isinstance(about, dict)
    commands = about["commands"]
    assert isinstance(commands, list)
    if name == "git":
        assert commands == [{"argv": ["git", "log"], "cwd": "/workspace/sub", "redirects": [], "decidable": True}]
        return
    last = commands[-1]
    assert isinstance(last, dict)
    assert last["argv"] == ["ls", "-l"]
    assert last["cwd"] == "/workspace/sub/sub"
    assert last["redirects"] == [{"operator": ">", "target": None}]
    assert last["decidable"] is False


def test_a_background_job_that_is_looked_at_runs_no_command() -> None:
    about = before_call(ToolCall("c1", "run_shell", {"command": "", "action": "log", "job": "j1"}), Place())["agent"]
    assert isinstance(about, dict)
    assert about["commands"] == []


@pytest.mark.parametrize(("path", "told"), [("a.py", "/home/x/a.py"), (".", "/home/x"), ("/workspace/b/../c", "/home/x/c")])
def test_files_are_named_where_they_lie_on_this_machine_and_come_back_relative(path: str, told: str) -> None:
    call = ToolCall("c1", "read_file", {"path": path})
    fields = before_call(call, Place(), "/home/x")["tool_input"]
    assert fields == {"file_path": told}
    assert isinstance(fields, dict)
    assert as_ours(call, fields, "/home/x", "/workspace")["path"] == told.removeprefix("/home/x").lstrip("/") or "."
    assert as_ours(call, {"file_path": "/workspace/d"}, "/home/x", "/workspace") == {"path": "d"}


def test_a_file_outside_keeps_its_name() -> None:
    told = before_call(ToolCall("c1", "read_file", {"path": "/workspace2/a"}), Place(), "/home/x")
    assert told["tool_input"] == {"file_path": "/workspace2/a"}


def test_a_result_is_told_beside_its_call() -> None:
    call, result = ToolCall("c1", "run_shell", {"command": "ls"}), ToolResult("c1", "run_shell", "a.py", exit_code=0)
    told = after_call(before_call(call, Place()), result)
    assert told["tool_response"] == {"content": "a.py", "is_error": False, "exit_code": 0}
    assert told["tool_name"] == "Bash"


@pytest.mark.parametrize(("name", "arguments", "known", "fields"), CALLS)
def test_an_unchanged_rewrite_is_the_same_call(name: str, arguments: Json, known: str, fields: Json) -> None:
    call = ToolCall("c1", name, arguments)
    again = before_call(ToolCall("c1", name, as_ours(call, fields, "/workspace")), Place())
    assert (again["tool_name"], again["tool_input"]) == (known, fields)


@pytest.mark.parametrize(
    ("name", "arguments", "updated", "ours"),
    [
        ("run_shell", {"command": "a", "background": True}, {"command": "b"}, {"command": "b", "background": True}),
        ("run_shell", {"command": "a", "timeout_s": 9}, {"command": "b", "timeout": 1_500}, {"command": "b", "timeout_s": 2}),
        ("run_shell", {"command": "a"}, {"command": "b", "description": "x", "run_in_background": False}, {"command": "b"}),
        ("run_shell", {"command": "a"}, {"timeout": 1_000}, {"timeout_s": 1}),
        ("edit_file", {"path": "a", "old_text": "1", "new_text": "2"}, {"file_path": "/workspace/b"}, {"path": "b"}),
        ("edit_file", {"path": "a", "old_text": "1"}, {"path": "b", "old_text": "1", "new_text": "2"}, None),
        (
            "edit_file",
            {"path": "a"},
            {"file_path": "/etc/x", "content": "y"},
            {"path": "/etc/x", "new_text": "y", "old_text": ""},
        ),
        ("git", {"command": "push"}, {"command": "git log -1"}, {"command": "log", "args": ["-1"]}),
        ("git", {"command": "push"}, {"command": "log", "args": []}, None),
        ("git", {"command": "push"}, {"command": "rm -rf 'x"}, None),
        ("git", {"command": "push"}, {"command": "ls"}, None),
        ("list_files", {"path": "."}, {"path": "a"}, None),
    ],
)
def test_a_rewrite_replaces_everything_but_what_only_we_have(
    name: str, arguments: Json, updated: Json, ours: Json | None
) -> None:
    rewritten = as_ours(ToolCall("c1", name, arguments), updated, "/workspace")
    assert rewritten == (updated if ours is None else ours)
