"""A person's own executables, run at named moments of a session and spoken to in JSON."""

from agent_harness.hooks.answer import HookAnswer
from agent_harness.hooks.runner import Hooks

__all__ = ["HookAnswer", "Hooks"]
