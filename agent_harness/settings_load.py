"""From flags, environment and config file to `Settings`: flag > environment > config file > default.

Nothing is created, and nothing in the worked-on repository is read. Every refusal is a `ConfigError` of one line that names
what was read, from where, and what to do.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, cast
from urllib.parse import urlsplit

from agent_harness.assignment import names_path
from agent_harness.errors import ConfigError
from agent_harness.github_settings import parse_issue
from agent_harness.places import config_file, state_home
from agent_harness.settings import HOOK_EVENTS, Endpoint, HookEvent, HookSetting, Settings
from agent_harness.settings_values import (
    Values,
    check_keys,
    co_authors,
    count,
    dollars,
    labels,
    price,
    read_config,
    reviewers,
    seconds,
    shown,
    switch,
    text_file,
    word,
    words,
)
from agent_harness.surfaces.globs import parse_globs
from agent_harness.task import Limits, Permits, Wishes

OPENAI_URL = "https://api.openai.com/v1"
OPENROUTER_URL = "https://openrouter.ai/api/v1"
CONFIG_KEYS = (
    *("model", "base_url", "api_key", "surface", "pr", "draft", "deny", "price_in", "price_out"),
    *("scope", "allow_workflows", "allow_submodules", "allow_secrets"),
    *("max_turns", "max_tokens", "max_cost", "max_completion_tokens", "max_seconds", "compact_at"),
    *("hooks", "hook_timeout", "hook_on_failure", "instructions"),
    *("label", "reviewer", "co_author"),
)
HOOK_VARIABLES: dict[str, HookEvent] = {
    "AGENT_HOOK_" + re.sub(r"(?<!^)(?=[A-Z])", "_", event).upper(): event for event in HOOK_EVENTS
}
# How long a hook may take, in seconds: far above what a policy script needs, and short enough that a hung one is noticed.
HOOK_TIMEOUTS_S: dict[HookEvent, float] = {
    "SessionStart": 60,
    "UserPromptSubmit": 30,
    "PreToolUse": 30,
    "PostToolUse": 60,
    "PreCompact": 30,
    "Notification": 10,
    "SessionEnd": 10,
    "Stop": 60,
}
MAX_INSTRUCTIONS = 32 << 10  # bytes: about 8,000 tokens, which every request carries


@dataclass(frozen=True, slots=True)
class Flags:
    """What the command line said; `values` has only the options that were given, under their config-file names."""

    repo: str
    text: str
    base: str | None = None
    hooks_fail_open: bool = False
    confine: bool = True
    values: Mapping[str, object] = field(default_factory=dict[str, object])


def load(flags: Flags, environ: Mapping[str, str], started_in: Path) -> Settings:
    """The settings of one session.

    Raises:
        ConfigError: something is missing, unknown or not usable.
    """
    path = config_file(environ)
    values = Values(flags.values, environ, path, read_config(path, CONFIG_KEYS))
    _check_task(flags, started_in)
    price_in, price_out = values.get("price_in", price, None), values.get("price_out", price, None)
    if (price_in is None) != (price_out is None):
        raise ConfigError("--price-in and --price-out belong together; give both, in US dollars per million tokens")
    surface = _surface(values, flags, started_in)
    return Settings(
        repo=flags.repo,
        text=flags.text,
        endpoint=_endpoint(values),
        home=state_home(environ),
        started_in=started_in,
        surface=surface,
        base=None if flags.base is None else word(flags.base, "--base"),
        pull_request=values.get("pr", switch, surface != "host"),
        draft=values.get("draft", switch, False),
        confine=flags.confine,
        wishes=Wishes(
            labels=values.get("label", labels, ()),
            reviewers=values.get("reviewer", reviewers, ()),
            co_authors=values.get("co_author", co_authors, ()),
        ),
        limits=_limits(values),
        price_in=price_in,
        price_out=price_out,
        deny=values.get("deny", _deny, ()),
        instructions=_instructions(values, started_in),
        permits=Permits(
            values.get("scope", _globs, ()),
            values.get("allow_workflows", switch, False),
            values.get("allow_submodules", switch, False),
            values.get("allow_secrets", _globs, ()),
        ),
        hooks=_hooks(values, flags.hooks_fail_open),
        environ=dict(environ),
    )


def load_endpoint(environ: Mapping[str, str]) -> Endpoint:
    """The model's endpoint alone, as `run` without flags would take it.

    Raises:
        ConfigError: as `load`.
    """
    path = config_file(environ)
    return _endpoint(Values({}, environ, path, read_config(path, CONFIG_KEYS)))


def load_hooks(environ: Mapping[str, str]) -> tuple[HookSetting, ...]:
    """The configured hooks alone.

    Raises:
        ConfigError: as `load`.
    """
    path = config_file(environ)
    return _hooks(Values({}, environ, path, read_config(path, CONFIG_KEYS)), fail_open=False)


def _globs(value: object, where: str) -> tuple[str, ...]:
    """Globs that can be meant: those of the repository."""
    globs = words(value, where)
    for text in globs:
        if text.startswith("/"):
            raise ConfigError(
                f"{where} has {shown(text)}; patterns are relative to the repository's root, so leave the leading '/' out "
                "('./name' is a name at the root only)"
            )
        parse_globs(text)
    return globs


def _deny(value: object, where: str) -> tuple[str, ...]:
    """Globs of files that may be denied: not all of them."""
    globs = _globs(value, where)
    for text in globs:
        if any(glob.is_everything for glob in parse_globs(text)):
            raise ConfigError(f"{where} has {shown(text)}, which denies every file; name what is not for the agent to read")
    return globs


def _check_task(flags: Flags, started_in: Path) -> None:
    if not flags.repo.strip():
        raise ConfigError("the repository is empty; give a path or a git URL")
    if not flags.text.strip() and (parse_issue(flags.repo) is None or (started_in / flags.repo).exists()):
        raise ConfigError('the task is empty; say what to do: agent-harness run REPO "what to do"')
    if "\0" in flags.repo + flags.text:
        raise ConfigError("the repository or the task holds a NUL character; remove it")


def _endpoint(values: Values) -> Endpoint:
    key, key_source = _key(values)
    url, url_source = values.find("base_url", ("OPENAI_BASE_URL",)) or (None, "")
    if key_source == "OPENROUTER_API_KEY":
        if url is not None:
            # The key of one provider is never sent to another one's address.
            raise ConfigError(
                f"{url_source} is set and the only key is OPENROUTER_API_KEY; set OPENAI_API_KEY for that endpoint "
                "(any word for one that takes no key), or remove the address to use OpenRouter"
            )
        url = OPENROUTER_URL
    model = values.get("model", word, "", ("AGENT_MODEL", "OPENAI_MODEL"))
    if not model:
        raise ConfigError("no model is set: give --model, or set AGENT_MODEL, for example AGENT_MODEL=openai/gpt-5")
    base_url = OPENAI_URL if url is None else _base_url(word(url, url_source), url_source)
    return Endpoint(base_url, key, model, key_source)


def _key(values: Values) -> tuple[str, str]:
    found = values.find("api_key", ("OPENAI_API_KEY", "OPENROUTER_API_KEY"))
    if found is None:
        raise ConfigError(
            "no API key: set OPENAI_API_KEY (with OPENAI_BASE_URL for any other OpenAI-compatible endpoint) "
            "or OPENROUTER_API_KEY; `agent-harness demo` needs none"
        )
    key, source = found
    if not isinstance(key, str) or not key.isascii() or not key.isprintable() or " " in key or not key:
        raise ConfigError(
            f"{source} is no API key: it is empty, or has a blank or a character that cannot be sent; copy it again"
        )
    return key, source


def _base_url(url: str, source: str) -> str:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
        parts = urlsplit("")
    if not usable:
        raise ConfigError(f"{source} is {shown(url.rpartition('@')[2])}; give an http or https address such as {OPENAI_URL!r}")
    if "@" in parts.netloc:
        raise ConfigError(f"{source} carries a user name or password; take it out and give the key by OPENAI_API_KEY")
    if parts.query or parts.fragment:
        raise ConfigError(f"{source} has a '?' or '#'; give the address that '/chat/completions' is appended to")
    return url.rstrip("/")


def _surface(values: Values, flags: Flags, started_in: Path) -> Literal["host", "local"]:
    """Where to work; `auto` is in place for a path, and a clone on this machine for a URL."""
    name = values.get("surface", word, "auto")
    if name == "e2b":
        raise ConfigError(f"surface {name!r} is not available yet; leave --surface out or give 'host' or 'local'")
    if name not in ("auto", "host", "local"):
        raise ConfigError(f"{shown(name)} is no surface; give 'auto', 'host' or 'local'")
    here = names_path(flags.repo, started_in)
    if name == "host" and not here:
        raise ConfigError(f"surface 'host' works in a checkout on this machine, and {shown(flags.repo)} is none; leave it out")
    chosen = name if name != "auto" else "host" if here else "local"
    if chosen != "host" and not flags.confine:
        raise ConfigError("--no-confine belongs to the surface 'host'; a clone is always worked on in a sandbox, so leave it out")
    return chosen


def _limits(values: Values) -> Limits:
    default = Limits()
    return Limits(
        max_turns=values.get("max_turns", count, default.max_turns),
        max_tokens=values.get("max_tokens", count, default.max_tokens),
        max_cost_usd=values.get("max_cost", dollars, default.max_cost_usd),
        max_completion_tokens=values.get("max_completion_tokens", count, default.max_completion_tokens),
        max_seconds=values.get("max_seconds", seconds, default.max_seconds),
        compact_at=values.get("compact_at", count, default.compact_at),
    )


def _instructions(values: Values, started_in: Path) -> str:
    """What the person's file says; a path in the config file starts from there."""
    folder = started_in if "instructions" in values.flags else values.path.parent
    return values.get("instructions", lambda value, where: text_file(value, where, folder, MAX_INSTRUCTIONS), "")


def _hooks(values: Values, fail_open: bool) -> tuple[HookSetting, ...]:
    known = (*HOOK_VARIABLES, "AGENT_HOOK_TIMEOUT", "AGENT_HOOK_ON_FAILURE")
    check_keys({name: None for name in values.environ if name.startswith("AGENT_HOOK_")}, known, "the environment")
    timeout_s = values.get("hook_timeout", seconds, None, ("AGENT_HOOK_TIMEOUT",))
    on_failure = values.get("hook_on_failure", word, "block", ("AGENT_HOOK_ON_FAILURE",))
    if on_failure not in ("block", "continue"):
        raise ConfigError(f"AGENT_HOOK_ON_FAILURE is {shown(on_failure)}; give 'block' (the default) or 'continue'")
    commands = [*_hooks_of_config(values), *_hooks_of_environment(values)]
    return tuple(
        HookSetting(event, command, source, timeout_s or HOOK_TIMEOUTS_S[event], fail_open or on_failure == "continue")
        for event, command, source in commands
    )


def _hooks_of_environment(values: Values) -> list[tuple[HookEvent, str, str]]:
    return [
        (event, line.strip(), variable)
        for variable, event in HOOK_VARIABLES.items()
        for line in values.environ.get(variable, "").splitlines()
        if line.strip()
    ]


def _hooks_of_config(values: Values) -> list[tuple[HookEvent, str, str]]:
    """Hooks of the config file; the environment's variable of the same event replaces them."""
    table = values.config.get("hooks", {})
    where = f"'hooks' in {str(values.path)!r}"
    if not isinstance(table, dict):
        raise ConfigError(f'{where} is {shown(table)}; write a table of events, such as PreToolUse = "./policy.sh"')
    commands = cast("dict[str, object]", table)
    check_keys(commands, HOOK_EVENTS, where)
    overridden = {event for variable, event in HOOK_VARIABLES.items() if values.environ.get(variable, "").strip()}
    return [
        (cast("HookEvent", event), command, f"{event!r} of {where}")
        for event, lines in commands.items()
        if event not in overridden
        for command in words(lines, f"{event!r} of {where}")
    ]
