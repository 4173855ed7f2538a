"""Hooks as a session has them, with scripts in a folder of their own and the record of what ran."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agent_harness.events import Event, HookRan, JsonValue
from agent_harness.hooks import HookAnswer, Hooks
from agent_harness.settings import HookEvent, HookSetting

CALL: dict[str, JsonValue] = {
    "tool_name": "Bash",
    "tool_input": {"command": "ls"},
    "tool_use_id": "c1",
    "agent": {"tool": "run_shell"},
}


@dataclass
class HookRig:
    """`add` hooks, then `fire`."""

    folder: Path
    environ: Mapping[str, str] = field(default_factory=lambda: {"PATH": "/usr/bin:/bin"})
    settings: list[HookSetting] = field(default_factory=list[HookSetting])
    events: list[Event] = field(default_factory=list[Event])

    def script(self, body: str, name: str = "policy.sh") -> Path:
        """An executable file; `sh` when it names no interpreter."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(body if body.startswith("#!") else f"#!/bin/sh\n{body}\n", encoding="utf-8")
        path.chmod(0o755)
        return path

    def add(self, command: str, event: HookEvent = "PreToolUse", *, timeout_s: float = 20, fail_open: bool = False) -> None:
        self.settings.append(HookSetting(event, command, "a test", timeout_s, fail_open))

    def hooks(self) -> Hooks:
        common: dict[str, JsonValue] = {
            "session_id": "s1",
            "transcript_path": str(self.folder / "trace.jsonl"),
            "cwd": str(self.folder),
            "permission_mode": "bypassPermissions",
            "agent": {"worktree": str(self.folder / "worktree"), "branch": "agent/s1"},
        }
        return Hooks(self.settings, self.folder, self.environ, self.events.append, common)

    async def fire(self, payload: Mapping[str, JsonValue] = CALL, event: HookEvent = "PreToolUse") -> HookAnswer:
        return await self.hooks().fire(event, payload)

    def ran(self) -> list[HookRan]:
        return [event for event in self.events if isinstance(event, HookRan)]
