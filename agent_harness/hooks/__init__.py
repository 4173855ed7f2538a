"""A person's own executables, run at named moments of a session and spoken to in JSON."""

from agent_harness.hooks.answer import NO_OBJECTION, HookAnswer
from agent_harness.hooks.runner import Hooks

__all__ = ["NO_OBJECTION", "HookAnswer", "Hooks"]
