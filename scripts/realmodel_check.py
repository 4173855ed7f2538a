#!/usr/bin/env python3
"""One session against a real (tiny) model on this machine; checks that it ends cleanly with the usage that the server counted.

    python3 scripts/realmodel_check.py

The model answers in prose and changes nothing, so `no_changes` is the good end. Takes about a minute, and a download of 110 MB
the first time.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

ROOT = Path(__file__).resolve().parents[1]
TASK = "Say in one sentence what README.md is about. Do not change anything."
START_S = 300  # the first start installs the server
SESSION_S = 300
CLEAN = ("no_changes", "succeeded", "over_budget")  # the last: it talked until the ceilings that are set below

Record = dict[str, object]


@contextmanager
def real_model() -> Generator[str]:
    """The base URL of a server that ends with the block."""
    command = [sys.executable, str(ROOT / "scripts" / "real_model_server.py"), "--seconds", str(START_S + SESSION_S)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        try:
            assert server.stdout is not None
            line = server.stdout.readline()
            if not line.startswith("listening "):
                raise SystemExit("the real model's server did not start; run scripts/real_model_server.py to see why")
            yield line.split()[1]
        finally:
            server.kill()


def make_repository(folder: Path) -> str:
    """A bare repository with one commit; its URL."""
    work, origin = folder / "work", folder / "origin.git"
    work.mkdir()
    (work / "README.md").write_text("# kettle\n\nA program that tells when the water boils.\n", encoding="utf-8")
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}
    identity = ("-c", "user.name=Check", "-c", "user.email=check@demo.invalid")
    for arguments in (
        ("init", "-q", "-b", "main"),
        ("add", "."),
        (*identity, "commit", "-q", "-m", "A kettle"),
        ("clone", "-q", "--bare", ".", str(origin)),
    ):
        subprocess.run(["git", *arguments], cwd=work, env=environ, check=True)
    return origin.as_uri()


def run_session(base_url: str, folder: Path) -> tuple[int, list[Record]]:
    """Exit code and events of a session as a person would start it."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    environ = {
        **kept,
        "HOME": str(folder),
        "AGENT_HARNESS_HOME": str(folder / "sessions"),
        "OPENAI_BASE_URL": base_url,
        "OPENAI_API_KEY": "none",
        "AGENT_MODEL": "smollm2",
    }
    command = [sys.executable, "-m", "agent_harness", "run", make_repository(folder), TASK, "--surface", "local", "--json"]
    # The server has a context of 8,192 tokens, and what this model says is not worth many.
    command += ["--max-cost", "none", "--max-turns", "4", "--max-completion-tokens", "200", "--max-tokens", "40000"]
    done = subprocess.run(command, cwd=ROOT, env=environ, stdout=subprocess.PIPE, text=True, timeout=SESSION_S, check=False)
    return done.returncode, [cast("Record", json.loads(line)) for line in done.stdout.splitlines()]


def problems(code: int, events: list[Record]) -> Iterator[str]:
    """What is not as it should be."""
    if not events or events[-1].get("type") != "session_ended":
        yield "the last event is no session_ended"
        return
    ended = events[-1]
    if ended.get("outcome") not in CLEAN or ended.get("exit_code") != code:
        yield f"ended {ended.get('outcome')} ({ended.get('reason')}), exit code {code}: {ended.get('summary')}"
    usages = [event for event in events if event.get("type") == "usage"]
    if not usages:
        yield "no usage was recorded"
    for usage in usages:
        if usage.get("estimated") is not False or not usage.get("input_tokens") or not usage.get("output_tokens"):
            yield f"a usage that the server did not count: {usage}"


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="realmodel-") as folder, real_model() as base_url:
        began = time.monotonic()
        code, events = run_session(base_url, Path(folder))
        took = time.monotonic() - began
        found = list(problems(code, events))
    for event in events:
        if event.get("type") == "usage":
            print(
                f"request: {event['input_tokens']} input tokens ({event['cached_tokens']} cached), "
                f"{event['output_tokens']} output, {event['total_tokens']} in all"
            )
    if events:
        print(f"ended: {events[-1].get('outcome')} ({events[-1].get('reason')}) after {took:.1f} s, {len(events)} events")
        print(f"it said: {str(events[-1].get('summary'))[:300]!r}")
    for problem in found:
        print(f"PROBLEM: {problem}")
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
