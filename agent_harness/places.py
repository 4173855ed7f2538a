"""Where things of ours lie on this machine. Apart from the settings, because a shell's completion must not wait for those."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from agent_harness.errors import ConfigError

LONGEST_SHOWN = 80  # characters of a path in a message


def config_file(environ: Mapping[str, str]) -> Path:
    """Where the config file would be."""
    return _xdg(environ, "XDG_CONFIG_HOME", ".config") / "agent-harness" / "config.toml"


def state_home(environ: Mapping[str, str]) -> Path:
    """Where sessions are kept. Not created here.

    Raises:
        ConfigError: `AGENT_HARNESS_HOME` is no absolute path, or one that cannot stand on a line.
    """
    given = environ.get("AGENT_HARNESS_HOME", "").strip(" ")
    if not given.strip():
        home = _xdg(environ, "XDG_STATE_HOME", ".local/state") / "agent-harness"
        return _writable_name(home, "the folder for sessions")
    home = Path(given)
    if not home.is_absolute():
        raise ConfigError(f"AGENT_HARNESS_HOME is {_shown(given)}; give an absolute path, so that sessions are found again")
    return _writable_name(home, "AGENT_HARNESS_HOME")


def _writable_name(home: Path, where: str) -> Path:
    """A path that can stand in git's own files and in the trace, which are lines of UTF-8."""
    text = str(home)
    if any(ord(char) < 32 or 127 <= ord(char) < 160 or "\ud800" <= char <= "\udfff" for char in text):
        raise ConfigError(
            f"{where} is {_shown(text)}, which holds a line break, another control character or bytes that are no UTF-8; "
            "set AGENT_HARNESS_HOME to a folder without them"
        )
    return home


def _xdg(environ: Mapping[str, str], variable: str, default: str) -> Path:
    # The XDG base directory specification says that a relative path is to be ignored.
    given = Path(environ.get(variable, ""))
    if given.is_absolute():
        return given
    home = Path(environ.get("HOME") or Path.home())
    if not home.is_absolute():  # it would make files of the current folder, a repository perhaps, the person's own
        raise ConfigError(
            f"HOME is {_shown(str(home))}; set it to an absolute path, or both AGENT_HARNESS_HOME and XDG_CONFIG_HOME"
        )
    return home / default


def _shown(path: str) -> str:
    return repr(path if len(path) <= LONGEST_SHOWN else path[:LONGEST_SHOWN] + "...")
