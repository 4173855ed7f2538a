"""What the person configured: flag > environment > config file > default. A repository never sets anything here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Literal

from agent_harness.task import Limits, Permits, Wishes

HookEvent = Literal[
    "SessionStart",
    "UserPromptSubmit",
    "PreToolUse",
    "PostToolUse",
    "PreCompact",
    "Notification",
    "SessionEnd",
    "Stop",
]
HOOK_EVENTS: tuple[HookEvent, ...] = (
    "SessionStart",
    "UserPromptSubmit",
    "PreToolUse",
    "PostToolUse",
    "PreCompact",
    "Notification",
    "SessionEnd",
    "Stop",
)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where the model is. `source` says which variable or flag it was read from, for messages."""

    base_url: str
    api_key: str
    model: str
    source: str


@dataclass(frozen=True, slots=True)
class HookSetting:
    """One configured hook: a command line run by `sh -c` in the directory where the person started."""

    event: HookEvent
    command: str
    source: str
    timeout_s: float
    fail_open: bool


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that `build.py` needs for one session.

    Attributes:
        repo: as given: a path or a git URL, credentials and all. Never recorded; `Task.repo` is the clean form.
        home: where sessions are kept.
        started_in: the directory where the person started; hooks run there.
        confine: commands on the person's own checkout run in bubblewrap.
        wishes: labels, reviewers and co-authors; `draft` stands beside it.
        price: per million tokens, when given by flags.
        instructions: the text of the person's `--instructions` file; empty when there is none.
        environ: the environment at the start, for hooks (without credentials) and for the redactor.
    """

    repo: str
    text: str
    endpoint: Endpoint
    home: Path
    started_in: Path
    surface: Literal["auto", "host", "local", "e2b"] = "auto"
    base: str | None = None
    pull_request: bool = True
    draft: bool = False
    confine: bool = True
    wishes: Wishes = field(default_factory=Wishes)
    limits: Limits = field(default_factory=Limits)
    price_in: Decimal | None = None
    price_out: Decimal | None = None
    deny: tuple[str, ...] = ()
    instructions: str = ""
    permits: Permits = field(default_factory=Permits)
    hooks: tuple[HookSetting, ...] = ()
    environ: Mapping[str, str] = field(default_factory=dict[str, str])
