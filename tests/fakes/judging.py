"""Short ways to ask both guards, for tables of commands."""

from __future__ import annotations

from agent_harness.events import JsonValue
from agent_harness.guards import default_guards
from agent_harness.messages import ToolCall
from agent_harness.verdict import Decision, Verdict, strictest
from agent_harness.world import World
from tests.fakes.data_world import DataWorld

GUARDS = default_guards()


def verdict(command: str, world: World | None = None) -> Verdict:
    """What the guards say of a shell line."""
    return _ask("run_shell", {"command": command}, world)


def git_verdict(*argv: str, world: World | None = None) -> Verdict:
    """What the guards say of the git tool's arguments."""
    return _ask("git", {"command": argv[0], "args": list[JsonValue](argv[1:])}, world)


def _ask(tool: str, arguments: dict[str, JsonValue], world: World | None) -> Verdict:
    call = ToolCall("call_1", tool, arguments)
    place = world or DataWorld()
    return strictest(guard.judge(call, place) for guard in GUARDS)


def refused(command: str, world: World | None = None) -> bool:
    """Whether a shell line is denied."""
    return verdict(command, world).decision is Decision.DENY
