"""Every test runs in a home of its own, without any key of the person who runs it."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL", re.IGNORECASE)
OURS = re.compile(r"^(AGENT_|OPENAI_|OPENROUTER_|ANTHROPIC_|E2B_|GITHUB_|GH_|LANGFUSE_|OTEL_|GIT_|XDG_)")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fresh home for HOME, XDG_* and AGENT_HARNESS_HOME; no variable that configures us or looks like a key survives."""
    for name in list(os.environ):
        if SECRET_NAME.search(name) or OURS.match(name):
            monkeypatch.delenv(name)
    folder = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(folder))
    for name in ("CONFIG", "CACHE", "STATE", "DATA"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(folder / f".{name.lower()}"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder / "run"))
    monkeypatch.setenv("AGENT_HARNESS_HOME", str(folder / "sessions"))
    return folder
