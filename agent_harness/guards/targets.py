"""Whether deleting what a word names could touch anything that is not the agent's to delete."""

from __future__ import annotations

import posixpath
import re

from agent_harness.guards.machine import Finding, Machine
from agent_harness.guards.marks import (
    CLOSE,
    DEEP,
    DIGITS,
    ONE,
    OPEN,
    PATTERN,
    SAFE,
    STAR,
    UNKNOWN,
    literal,
    show,
    strip_nothing,
    unknown,
)
from agent_harness.guards.parameters import glob_regex
from agent_harness.guards.state import State
from agent_harness.world import World

# git's own advice for a stale lock or a broken rebase; everything else in there is history, configuration or a safety hook.
_REPAIRS = re.compile(r"\.git/(index\.lock|rebase-merge(/.*)?)")
_DRIVE = re.compile(r"\\+|[A-Za-z]:([\\/].*)?")
_BRACKET = re.compile(f"{OPEN}[!^]?[^{CLOSE}]*{CLOSE}")
_WIDE = re.compile(f"{OPEN}([!^]|.*([a-zA-Z]-|:al))")
INSIDE = "delete only named paths inside the worktree; for scratch files use a folder in the worktree such as .agent/tmp"


def absolute(word: str, state: State) -> str | None:
    """The word as a normalised absolute path, marks kept; None when the current folder is unknown."""
    text = strip_nothing(word)
    if not text.startswith("/"):
        if state.cwd is None:
            return None
        text = state.cwd + "/" + text
    return "/" + posixpath.normpath(text).lstrip("/")


def real(world: World, state: State, path: str) -> str:
    """The path with links resolved, those included that this very line makes."""
    for _ in range(8):
        link = next((each for each in state.links if path == each or path.startswith(each + "/")), None)
        if link is None:
            break
        target = state.links[link]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(link), target) + path[len(link) :])
    return world.realpath(path)


def judge_target(machine: Machine, word: str, state: State) -> Finding | None:
    """Why the path that a word names must not be deleted; None when it may be."""
    text = strip_nothing(word)
    if not text:
        if not word:
            return None
        return Finding("rm.unknown", "it deletes what a variable names that is not set", _UNSET, (show(word),))
    if unknown(text):
        return Finding("rm.unknown", f"what {show(text)!r} means cannot be known before it runs", _UNKNOWN, (show(text),))
    if _DRIVE.fullmatch(text):
        return Finding("rm.outside", f"{text!r} can mean the root of a drive", INSIDE, (text,), "/")
    if state.mounts is not None:
        return _judge_mounted(machine, text, state)
    if not text.startswith("/"):
        if state.cwd is None:
            reason = f"the folder in which {show(text)!r} would be deleted cannot be known before it runs"
            return Finding("rm.unknown", reason, _UNKNOWN, (show(text),))
        text = state.cwd + "/" + text
    machine.tick(2)
    finding = _judge_path(machine, text, state, show(word))
    if finding is None and ".." in text and PATTERN.search(text) is None:
        finding = _judge_path(machine, posixpath.normpath(text), state, show(word))
    return finding


_UNKNOWN = "write the path out instead of computing it"
_UNSET = "write the path out, or set the variable in the same command"


def _judge_path(machine: Machine, text: str, state: State, word: str) -> Finding | None:
    """The path step by step, as the kernel would take it: links are followed before `..` is."""
    world = machine.world
    here, patterns = "/", list[str]()
    parts = text.split("/")
    last_followed = parts[-1] in ("", ".", "..")
    for part in parts:
        if part in ("", "."):
            continue
        if part == "..":
            if patterns and DEEP in patterns[-1]:
                return Finding("rm.unknown", f"how far up {word!r} leads cannot be known before it runs", _UNKNOWN, (word,))
            if patterns:
                patterns.pop()
            else:
                here = posixpath.dirname(real(world, state, here))
        elif patterns or PATTERN.search(part):
            patterns.append(DEEP if part == STAR * 2 else part)
        else:
            here = _join(real(world, state, here), part)
    if last_followed or patterns:
        here = real(world, state, here)
    if not patterns:
        return judge_place(world, here, word)
    return _judge_pattern(machine, here, patterns, state, word, followed=last_followed)


def _join(folder: str, name: str) -> str:
    return folder.rstrip("/") + "/" + name


def _below(world: World, path: str) -> str | None:
    """The path relative to the worktree (empty for itself), None when it is outside."""
    for root in (world.worktree, world.realpath(world.worktree)):
        if path == root:
            return ""
        if path.startswith(root.rstrip("/") + "/"):
            return path[len(root.rstrip("/")) + 1 :]
    return None


def inside(world: World, path: str) -> bool:
    """Whether an absolute path is in the worktree or the worktree itself."""
    return _below(world, path) is not None


def judge_place(world: World, path: str, word: str) -> Finding | None:
    """Why one resolved path must not be deleted."""
    below = _below(world, path)
    if below is None:
        if world.worktree.startswith(path.rstrip("/") + "/"):
            return Finding("rm.root", f"{path!r} holds the whole worktree", INSIDE, (word,), path)
        return Finding("rm.outside", f"{path!r} is outside the worktree {world.worktree!r}", INSIDE, (word,), path)
    if below == "":
        reason = "it deletes the worktree itself, with everything that was never committed"
        return Finding("rm.root", reason, INSIDE, (word,), path)
    if below.split("/", 1)[0].casefold() == ".git" and not _REPAIRS.fullmatch(below):
        reason = f"{path!r} is git's own folder: unpushed commits, the reflog and the hooks live there"
        return Finding(
            "rm.git", reason, "use git commands; only .git/index.lock and .git/rebase-merge may be removed", (word,), path
        )
    return None


def _judge_pattern(
    machine: Machine, base: str, patterns: list[str], state: State, word: str, *, followed: bool
) -> Finding | None:
    world = machine.world
    below = _below(world, base)
    if below is None:
        return judge_place(world, base, word)
    if below and (finding := judge_place(world, base, word)):
        return finding
    if any(_could_be("..", part, state) for part in patterns[:-1]):
        return Finding("rm.outside", f"a part of {word!r} can match '..'", INSIDE, (word,), posixpath.dirname(base))
    if below == "" and (finding := _judge_in_root(patterns, state, word, base)):
        return finding
    if any(DEEP in part or SAFE in part for part in patterns):
        return None
    wanted = _join(base, "/".join(patterns)).replace(DIGITS, STAR)
    for match in world.glob(show(wanted)):
        machine.tick()
        place = _join(real(world, state, posixpath.dirname(match)), posixpath.basename(match))
        finding = judge_place(world, real(world, state, match) if followed else place, word)
        if finding:
            return finding
    return None


def _judge_in_root(patterns: list[str], state: State, word: str, base: str) -> Finding | None:
    """Patterns right below the worktree's root."""
    names = [part for part in patterns if part != DEEP]
    if all(_matches_all(name) for name in names):
        reason = f"{word!r} matches everything in the worktree, with all that was never committed"
        return Finding("rm.root", reason, INSIDE, (word,), base)
    first = names[-1] if DEEP in patterns else patterns[0]
    if _could_be(".git", first, state):
        return Finding("rm.git", f"{word!r} can match .git, where history and hooks live", INSIDE, (word,), _join(base, ".git"))
    return None


def _matches_all(part: str) -> bool:
    if SAFE in part or DIGITS in part:
        return False
    rest = _BRACKET.sub(lambda found: "" if _WIDE.match(found.group()) else "x", part)
    return (STAR in rest or DEEP in rest) and not rest.replace(STAR, "").replace(ONE, "").replace(DEEP, "")


def _could_be(name: str, part: str, state: State) -> bool:
    """Whether a pattern may match that dot name, in bash or in a shell that is laxer about a leading dot."""
    if SAFE in part or DIGITS in part or part == DEEP:
        return False
    if part[0] == STAR and "dotglob" not in state.options:
        return False
    if name == ".." and part[0] != ".":
        return False
    if literal(part):
        return part == name
    try:
        return re.fullmatch(glob_regex(show(part)), name) is not None
    except re.error:
        return True


def _judge_mounted(machine: Machine, text: str, state: State) -> Finding | None:
    """A path inside a container: only what is mounted from the host counts."""
    path = posixpath.normpath(posixpath.join(state.cwd or "/", UNKNOWN.sub("x", text)))
    outer = state.copy()
    outer.mounts = None
    for mounted, source in state.mounts or ():
        if path == mounted or path.startswith(mounted.rstrip("/") + "/"):
            return judge_target(machine, (source.rstrip("/") + path[len(mounted.rstrip("/")) :]) or "/", outer)
        if mounted.startswith(path.rstrip("/") + "/"):
            return judge_target(machine, source, outer)
    return None
