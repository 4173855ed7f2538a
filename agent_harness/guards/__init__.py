"""The two guards that nobody can switch off: deletions outside the worktree, pushes to a protected branch."""

from __future__ import annotations

from agent_harness.guards.base import Guard
from agent_harness.guards.judge import ShellGuard


def default_guards() -> tuple[Guard, ...]:
    """Every guard, in the order asked."""
    return (ShellGuard("rm"), ShellGuard("push"))
