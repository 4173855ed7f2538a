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
    assert told == {"tool_name": known, "tool_input": fields, "tool_use_id": "c1", "agent": {"tool": name, "root": "/workspace"}}


def test_a_result_is_told_beside_its_call() -> None:
    call, result = ToolCall("c1", "run_shell", {"command": "ls"}), ToolResult("c1", "run_shell", "a.py", exit_code=0)
    told = after_call(call, result, Place())
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
