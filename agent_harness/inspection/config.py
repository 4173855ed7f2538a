"""What a git configuration file would have run. It is read by git's own parser, alone: no include in it is followed by git."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from agent_harness.inert_git import HOSTILE, Git, GitFailed
from agent_harness.inspection.base import Finding

MAX_INCLUDES = 20


def _anything(_value: str) -> bool:
    return True


def _is_shell(value: str) -> bool:
    return value.startswith("!")


def _is_on(value: str) -> bool:
    return value.lower() not in ("", "0", "false", "no", "off", "true", "1", "yes", "on")


def _odd_url(value: str) -> bool:
    return value.startswith("-") or "::" in value.split("/")[0]


# Of git's own manual (git-config): every key whose value is, names or brings in a program. Git's keys are lower case here,
# except what stands between the first and the last dot.
RULES: tuple[tuple[str, str, str, Callable[[str], bool]], ...] = (
    (r"core\.fsmonitor", "fsmonitor", "git status, add, commit, diff", _is_on),
    (r"core\.hookspath", "hooks-path", "any command with a hook", _anything),
    (r"filter\..*\.(clean|process)", "filter", "git add, status, diff, commit", _anything),
    (r"filter\..*\.smudge", "filter", "git checkout, clone, stash, reset", _anything),
    (r"diff\..*\.textconv", "textconv", "git diff, log -p, show, blame", _anything),
    (r"diff\.external|diff\..*\.command", "diff-driver", "git diff, log -p --ext-diff", _anything),
    (r"merge\..*\.driver", "merge-driver", "git merge, pull, rebase", _anything),
    (r"gpg\.program|gpg\..*\.program|gpg\.ssh\.defaultkeycommand", "gpg-program", "git commit -S, log", _anything),
    (r"core\.sshcommand|ssh\.variant", "ssh-command", "git fetch, pull, push over ssh", _anything),
    (r"core\.gitproxy", "proxy-command", "git fetch, pull, push", _anything),
    (r"credential\.helper|credential\..*\.helper", "credential-helper", "git fetch, pull, push over https", _anything),
    (r"core\.askpass", "askpass", "git fetch, pull, push over https", _anything),
    (r"core\.pager|pager\..*|interactive\.difffilter", "pager", "git log, diff, show, add -p", _is_on),
    (r"core\.editor|sequence\.editor", "editor", "git commit, rebase -i, tag", _anything),
    (r"alias\..*", "alias", "git and the alias's name", _is_shell),
    (r"include\.path|includeif\..*\.path", "include", "every git command", _anything),
    (r"url\..*\.(pushinsteadof|insteadof)", "instead-of", "git fetch, pull, push, to another server", _anything),
    (r"remote\..*\.(uploadpack|receivepack)", "remote-program", "git fetch, pull, push", _anything),
    (r"remote\..*\.(pushurl|url|vcs)", "remote-helper", "git fetch, pull, push", _odd_url),
    (r"remote\..*\.vcs", "remote-helper", "git fetch, pull, push", _anything),
    (r"protocol\.(ext\.)?allow", "protocol", "git fetch, pull, push, submodule update", _anything),
    (r"submodule\..*\.update", "submodule-update", "git submodule update", _is_shell),
    (r"submodule\..*\.url", "submodule-url", "git submodule update, clone --recurse-submodules", _odd_url),
    (r"uploadpack\.packobjectshook", "server-hook", "a fetch from here", _anything),
    (r"core\.alternaterefscommand", "server-hook", "git fetch, receive-pack", _anything),
    (r"(merge|diff)tool\..*\.(cmd|path)|(browser|man|guitool)\..*\.(cmd|path)", "tool", "git mergetool, difftool", _anything),
    (r"trailer\..*\.(command|cmd)", "trailer", "git interpret-trailers", _anything),
    (r"init\.templatedir", "template", "git init, clone", _anything),
    (r"core\.(worktree|attributesfile)", "redirect", "every git command, on files elsewhere", _anything),
)  # fmt: skip
MATCHERS = [(re.compile(pattern), kind, when, counts) for pattern, kind, when, counts in RULES]


async def read_config(git: Git, file: Path) -> list[tuple[str, str]] | None:
    """(key, value) of a configuration file, in its order; None when git cannot read it."""
    try:
        listed = await git.run("config", "--file", str(file), "--no-includes", "--list", "-z", ceilings=HOSTILE)
    except GitFailed:
        return None
    entries = (entry.partition("\n") for entry in listed.stdout.decode("utf-8", "replace").split("\0") if entry)
    return [(key, value) for key, _, value in entries]


async def in_config(git: Git, file: Path, label: str, entries: list[tuple[str, str]] | None = None) -> list[Finding]:
    """What this file, and the files that it includes, would have run.

    Args:
        git: the inert runner.
        file: the configuration file.
        label: how it is named in the findings.
        entries: its content, when it was read before.
    """
    found: list[Finding] = []
    todo, seen = [(file, label, entries)], {file}
    while todo:
        here, named, known = todo.pop(0)
        pairs = known if known is not None else await read_config(git, here)
        if pairs is None:
            found.append(Finding("unreadable", named, "", "", "git itself would stop here"))
            continue
        for key, value in pairs:
            finding = judge(named, key, value)
            if finding is None:
                continue
            found.append(finding)
            included = _included(here, value) if finding.kind == "include" and len(seen) < MAX_INCLUDES else None
            if included is not None and included not in seen:
                seen.add(included)
                todo.append((included, f"{value} (included by {named})", None))
    return found


def _included(file: Path, value: str) -> Path | None:
    """The file that an entry includes, when there is one."""
    try:
        path = file.parent / Path(value).expanduser()
        return path if path.is_file() else None
    except (OSError, RuntimeError, ValueError):
        return None


def judge(label: str, key: str, value: str) -> Finding | None:
    """What this entry would have run, if anything."""
    for pattern, kind, when, counts in MATCHERS:
        if pattern.fullmatch(key) and counts(value):
            return Finding(kind, label, key, value, when)
    return None
