"""What a hook is told about a call: names and fields that scripts written for Claude Code know, and our own beside them."""

from __future__ import annotations

import shlex

from agent_harness.events import JsonValue
from agent_harness.messages import ToolCall, ToolResult
from agent_harness.world import World

Json = dict[str, JsonValue]


def before_call(call: ToolCall, world: World) -> Json:
    """The PreToolUse fields of a call whose arguments are an object."""
    arguments = call.arguments if isinstance(call.arguments, dict) else {}
    name, fields = _as_known(call.name, arguments, world.worktree)
    return {
        "tool_name": name,
        "tool_input": fields,
        "tool_use_id": call.id,
        "call": {"tool": call.name, "arguments": arguments, "cwd": world.cwd},
    }


def after_call(call: ToolCall, result: ToolResult, world: World) -> Json:
    """The PostToolUse fields of a call and its result."""
    response: Json = {"content": result.content, "is_error": result.is_error, "exit_code": result.exit_code}
    return {**before_call(call, world), "tool_response": response}


def _as_known(name: str, arguments: Json, worktree: str) -> tuple[str, Json]:
    """A call in the words of Claude Code's tools; an unknown tool keeps its own."""
    path = arguments.get("path")
    where: Json = {"file_path": f"{worktree}/{path}"} if isinstance(path, str) else {}
    match name:
        case "run_shell":
            timeout = arguments.get("timeout_s", 30)
            ms: Json = {"timeout": round(timeout * 1000)} if isinstance(timeout, int | float) else {}
            return "Bash", {"command": arguments.get("command", ""), **ms}
        case "git":
            words = arguments.get("args")
            quoted = shlex.join(["git", str(arguments.get("command", "")), *map(str, words if isinstance(words, list) else [])])
            return "Bash", {"command": quoted}
        case "read_file":
            return "Read", where
        case "edit_file" if arguments.get("old_text") == "":
            return "Write", {**where, "content": arguments.get("new_text", "")}
        case "edit_file":
            old, new = arguments.get("old_text", ""), arguments.get("new_text", "")
            return "Edit", {**where, "old_string": old, "new_string": new, "replace_all": arguments.get("occurrence") == "all"}
        case "ripgrep":
            return "Grep", {"pattern": arguments.get("query", ""), "path": arguments.get("path", ".")}
        case _:
            return name, arguments


def as_ours(call: ToolCall, updated: Json) -> Json:
    """A hook's rewritten input as our tool's whole arguments: our own names are taken as they are, known ones translated.

    A rewrite replaces the input; what it leaves out of what only our tool has keeps the call's own value.
    """
    arguments = dict(call.arguments) if isinstance(call.arguments, dict) else {}
    renamed = {
        "file_path": "path",
        "old_string": "old_text",
        "new_string": "new_text",
        "content": "new_text",
        "pattern": "query",
    }
    theirs = {"Bash": {"command"}, "other": set(renamed)}
    known = theirs["Bash"] if call.name == "run_shell" else theirs["other"]
    if not known & set(updated):
        return updated
    for key, value in updated.items():
        if key == "timeout" and isinstance(value, int | float):
            arguments["timeout_s"] = max(1, round(value / 1000))
        elif key == "replace_all":
            arguments["occurrence"] = "all" if value else arguments.get("occurrence", "only")
        elif key not in ("description", "run_in_background"):
            arguments[renamed.get(key, key)] = value
    return arguments
