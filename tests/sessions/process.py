"""The command as a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager

from agent_harness.demo.script import Script
from agent_harness.demo.server import ScriptedEndpoint
from tests.sessions.rig import Rig

DEADLINE_S = 60


@contextmanager
def started(rig: Rig, script: Script, *options: str, repo: str = "", **more: str) -> Generator[subprocess.Popen[str]]:
    """`agent-harness run` on `repo` (else the rig's origin) as a process of its own; ended when the block is left."""
    with ScriptedEndpoint(script) as endpoint:
        env = {
            "PATH": os.environ["PATH"],
            "HOME": os.environ["HOME"],
            "AGENT_HARNESS_HOME": str(rig.folder / "home"),
            "OPENAI_BASE_URL": endpoint.base_url,
            "OPENAI_API_KEY": endpoint.key,
            "AGENT_MODEL": "scripted-1",
            **more,
        }
        command = [sys.executable, "-m", "agent_harness", "run", repo or rig.url, "Make the greeting polite."]
        prices = ["--price-in", "1", "--price-out", "2"]
        process = subprocess.Popen(
            [*command, *prices, *options],
            env=env,
            cwd=rig.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            yield process
        finally:
            process.kill()
            process.communicate()
