"""The model's own list of steps: shown, never enforced."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Status = Literal["pending", "in_progress", "done"]


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the plan, in the model's words."""

    content: str
    status: Status = "pending"


@dataclass(frozen=True, slots=True)
class Plan:
    """The whole plan; each `TodoWrite` replaces it."""

    todos: tuple[Step, ...] = ()
    notes: tuple[str, ...] = ()
