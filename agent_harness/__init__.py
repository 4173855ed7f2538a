"""Delegate a task on a git repository to a coding agent, safely. Public names are loaded when first used."""

__version__ = "0.1.0"
