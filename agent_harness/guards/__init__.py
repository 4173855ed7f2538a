"""The two guards that nobody can switch off: deletions outside the worktree, pushes to a protected branch."""

from __future__ import annotations

from agent_harness.guards.base import Guard


def default_guards() -> tuple[Guard, ...]:
    """Every guard, in the order asked; the parser is loaded with the first call that is judged."""
    from agent_harness.guards import push, rm
    from agent_harness.guards.judge import ShellGuard

    return (ShellGuard("rm", rm.check), ShellGuard("push", push.check))
