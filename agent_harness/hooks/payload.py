"""What a hook is told about a call: names and fields that scripts written for Claude Code know, and our own beside them."""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Sequence

from agent_harness.events import JsonValue
from agent_harness.guards.shell import parse_commands
from agent_harness.messages import ToolCall, ToolResult
from agent_harness.world import World

Json = dict[str, JsonValue]

# Arguments of ours that the known tools have no word for: a rewrite in their words leaves them as they are.
OURS_ONLY: dict[str, tuple[str, ...]] = {
    "run_shell": ("background", "job", "action"),
    "read_file": ("encoding",),
    "edit_file": ("occurrence",),
    "ripgrep": ("regex", "ignore_case", "include_ignored"),
}
IN_OUR_WORDS: dict[str, dict[str, str]] = {
    "run_shell": {"command": "command"},
    "read_file": {"file_path": "path", "offset": "offset", "limit": "limit"},
    "edit_file": {"file_path": "path", "old_string": "old_text", "new_string": "new_text", "content": "new_text"},
    "ripgrep": {"pattern": "query", "path": "path", "glob": "glob"},
}


def before_call(call: ToolCall, world: World, folder: str = "") -> Json:
    """The PreToolUse fields of a call whose arguments are an object.

    Args:
        call: the call.
        world: what the agent sees: a command's text is left as it is, and its parts are worked out there.
        folder: the worktree on this machine, which hooks find as `CLAUDE_PROJECT_DIR`: files are named below it. Empty when
            the worktree is not on this machine; files are then named as the agent sees them.
    """
    arguments = call.arguments if isinstance(call.arguments, dict) else {}
    name, fields = _as_known(call.name, arguments, world.worktree, folder or world.worktree)
    about: Json = {"tool": call.name, "root": world.worktree}
    if name == "Bash":
        command = fields["command"]
        about["commands"] = _commands(command, world) if isinstance(command, str) and command else []
    return {"tool_name": name, "tool_input": fields, "tool_use_id": call.id, "agent": about}


def after_call(told: Json, result: ToolResult) -> Json:
    """The PostToolUse fields: what `before_call` told, and the result."""
    response: Json = {"content": result.content, "is_error": result.is_error, "exit_code": result.exit_code}
    return {**told, "tool_response": response}


def _commands(command: str, world: World) -> list[JsonValue]:
    """The single commands that a line would run, so that a policy needs not read shell text."""
    return [
        {
            "argv": [*each.argv],
            "cwd": each.cwd,
            "redirects": [{"operator": redirect.operator, "target": redirect.target} for redirect in each.redirects],
            "decidable": each.decidable,
        }
        for each in parse_commands(command, world)
    ]


def _as_known(name: str, arguments: Json, worktree: str, folder: str) -> tuple[str, Json]:
    """A call in the words of Claude Code's tools, with absolute paths; an unknown tool keeps its own."""
    path = arguments.get("path", ".")
    absolute = posixpath.normpath(posixpath.join(worktree, path)) if isinstance(path, str) else ""
    if absolute == worktree or absolute.startswith(f"{worktree}/"):
        absolute = folder + absolute[len(worktree) :]
    match name:
        case "run_shell":
            return "Bash", {"command": arguments.get("command", ""), **_milliseconds(arguments.get("timeout_s", 30))}
        case "git":
            words = arguments.get("args")
            quoted = shlex.join(["git", str(arguments.get("command", "")), *map(str, words if isinstance(words, list) else [])])
            return "Bash", {"command": quoted}
        case "read_file":
            return "Read", {"file_path": absolute, **_some(arguments, "offset", "limit")}
        case "edit_file" if arguments.get("old_text") == "":
            return "Write", {"file_path": absolute, "content": arguments.get("new_text", "")}
        case "edit_file":
            old, new = arguments.get("old_text", ""), arguments.get("new_text", "")
            everywhere = arguments.get("occurrence") == "all"
            return "Edit", {"file_path": absolute, "old_string": old, "new_string": new, "replace_all": everywhere}
        case "ripgrep":
            return "Grep", {"pattern": arguments.get("query", ""), "path": absolute, **_some(arguments, "glob")}
        case _:
            return name, arguments


def _milliseconds(timeout_s: JsonValue) -> Json:
    return {"timeout": round(timeout_s * 1000)} if isinstance(timeout_s, int | float) else {}


def _some(arguments: Json, *names: str) -> Json:
    return {name: arguments[name] for name in names if arguments.get(name) is not None}


def as_ours(call: ToolCall, updated: Json, *roots: str) -> Json:
    """A hook's rewritten input as our tool's whole arguments: our own names are taken as they are, known ones translated.

    A rewrite replaces the input: what it leaves out is missing, except for what only our tool has. What cannot be translated is
    returned as it is, for the tool's own check to refuse.

    Args:
        call: as the model made it.
        updated: the hook's `updatedInput`.
        *roots: the worktree's absolute names; paths below one of them are made relative.
    """
    if call.name == "git":
        return _as_git(updated)
    names = IN_OUR_WORDS.get(call.name, {})
    theirs = {name for name, ours in names.items() if name != ours} or {"command", "timeout"}
    if not names or not theirs & set(updated):
        return updated
    own = call.arguments if isinstance(call.arguments, dict) else {}
    arguments = _some(own, *OURS_ONLY[call.name])
    for key, value in updated.items():
        if key == "timeout" and isinstance(value, int | float):
            arguments["timeout_s"] = max(1, round(value / 1000))
        elif key == "replace_all":
            arguments["occurrence"] = (
                "all" if value else "only" if own.get("occurrence") == "all" else own.get("occurrence", "only")
            )
        elif key not in ("description", "run_in_background"):
            name = names.get(key, key)
            arguments[name] = _relative(value, roots) if name == "path" else value
    if call.name == "edit_file" and "content" in updated:
        arguments.setdefault("old_text", "")
    return arguments


def _as_git(updated: Json) -> Json:
    command = updated.get("command")
    if "args" in updated or not isinstance(command, str):
        return updated
    try:
        words = shlex.split(command)
    except ValueError:
        return updated
    if len(words) < 2 or words[0] != "git":
        return updated
    return {"command": words[1], "args": [*words[2:]]}


def _relative(path: JsonValue, roots: Sequence[str]) -> JsonValue:
    if not isinstance(path, str):
        return path
    for root in roots:
        if path == root:
            return "."
        if path.startswith(f"{root.rstrip('/')}/"):
            return path[len(root.rstrip("/")) + 1 :]
    return path
