"""Where things of ours lie on this machine. Apart from the settings, because a shell's completion must not wait for those."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from agent_harness.errors import ConfigError


def config_file(environ: Mapping[str, str]) -> Path:
    """Where the config file would be."""
    return _xdg(environ, "XDG_CONFIG_HOME", ".config") / "agent-harness" / "config.toml"


def state_home(environ: Mapping[str, str]) -> Path:
    """Where sessions are kept. Not created here.

    Raises:
        ConfigError: `AGENT_HARNESS_HOME` is no absolute path.
    """
    given = environ.get("AGENT_HARNESS_HOME", "").strip()
    if not given:
        return _xdg(environ, "XDG_STATE_HOME", ".local/state") / "agent-harness"
    home = Path(given)
    if not home.is_absolute():
        raise ConfigError(f"AGENT_HARNESS_HOME is {given!r}; give an absolute path, so that sessions are found again")
    return home


def _xdg(environ: Mapping[str, str], variable: str, default: str) -> Path:
    # The XDG base directory specification says that a relative path is to be ignored.
    given = Path(environ.get(variable, ""))
    return given if given.is_absolute() else Path(environ.get("HOME") or Path.home()) / default
