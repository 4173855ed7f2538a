"""`find` and `fd`: which paths reach the action that deletes them.

The expression is not run on the disk. It is asked about a few made-up paths, with tests that look at the disk left undecided:
whether a file of `.git`, or any file at all, can reach the action.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from agent_harness.guards.machine import Finding, Handler, Invocation, Machine
from agent_harness.guards.marks import DEEP, GONE, HOLE, SAFE, STAR, UNSET, literal, show, strip_nothing, unknown
from agent_harness.guards.options import leading, name_set
from agent_harness.guards.parameters import glob_regex
from agent_harness.guards.state import State
from agent_harness.guards.targets import INSIDE, absolute, inside, judge_place, judge_target
from agent_harness.guards.wrappers import run_external

_VALUED = name_set(
    "-name -iname -path -ipath -wholename -iwholename -regex -iregex -type -xtype -newer -mtime -mmin -atime -amin -ctime "
    "-cmin -size -perm -user -group -maxdepth -mindepth -fstype -inum -links -lname -ilname -samefile -uid -gid -used "
    "-regextype -anewer -cnewer -printf -fprint -fprint0 -fls -context"
)
_ALWAYS = name_set(
    "-maxdepth -mindepth -depth -d -mount -xdev -follow -noleaf -daystart -regextype -warn -nowarn -ignore_readdir_race"
)
_PRINTS = name_set("-print -print0 -ls -printf -fprint -fprint0 -fls")
_GIT_PATHS = (
    ".git",
    ".git/config",
    ".git/HEAD",
    ".git/refs/heads/topic",
    ".git/objects/ab/cdef0123",
    ".git/hooks/pre-push",
    ".git/index",
)
_OTHER_PATHS = ("zq7", "zq7/wk9.vx", "zq7/wk9")


@dataclass(slots=True)
class _Test:
    """A node of the expression: a test, an action, or `and`/`or`/`not`/`list` over others."""

    kind: str
    value: str = ""
    words: list[str] = field(default_factory=list[str])
    parts: list[_Test] = field(default_factory=list["_Test"])


@dataclass(slots=True)
class _Walk:
    """One made-up path on its way through the expression."""

    path: str
    folder: bool
    reached: set[int] = field(default_factory=set[int])
    surely: set[int] = field(default_factory=set[int])
    pruned: bool = False


class _Parser:
    def __init__(self, words: list[str]) -> None:
        self._words = words
        self._at = 0
        self.actions: list[_Test] = []

    def expression(self) -> _Test:
        parts = [self._either()]
        while self._peek() == ",":
            self._at += 1
            parts.append(self._either())
        return parts[0] if len(parts) == 1 else _Test("list", parts=parts)

    def _peek(self) -> str:
        return self._words[self._at] if self._at < len(self._words) else ""

    def _either(self) -> _Test:
        parts = [self._both()]
        while self._peek() in ("-o", "-or"):
            self._at += 1
            parts.append(self._both())
        return parts[0] if len(parts) == 1 else _Test("or", parts=parts)

    def _both(self) -> _Test:
        parts: list[_Test] = []
        while self._at < len(self._words) and self._peek() not in ("-o", "-or", ",", ")"):
            if self._peek() in ("-a", "-and"):
                self._at += 1
                continue
            parts.append(self._one())
        return _Test("and", parts=parts)

    def _one(self) -> _Test:
        word = self._peek()
        self._at += 1
        if word in ("!", "-not"):
            return _Test("not", parts=[self._one()]) if self._at < len(self._words) else _Test("unknown")
        if word == "(":
            inner = self.expression()
            self._at += self._peek() == ")"
            return inner
        if word in ("-exec", "-execdir", "-ok", "-okdir"):
            start = self._at
            while self._at < len(self._words) and self._words[self._at] not in (";", "+"):
                self._at += 1
            action = _Test(word, words=self._words[start : self._at])
            self._at += 1
        elif word == "-delete" or word in _PRINTS:
            action = _Test(word)
            self._at += word in _VALUED
        else:
            value = ""
            if word in _VALUED or word.startswith("-newer"):
                value = self._peek()
                self._at += 1
            return _Test(word, value)
        self.actions.append(action)
        return action


def _evaluate(test: _Test, walk: _Walk, sure: bool) -> bool | None:
    """What a test says of a path; None when only the disk knows. Notes the actions that are reached."""
    match test.kind:
        case "and":
            return _chain(test.parts, walk, sure, decides=False)
        case "or":
            return _chain(test.parts, walk, sure, decides=True)
        case "list":
            return [_evaluate(part, walk, sure) for part in test.parts][-1]
        case "not":
            outcome = _evaluate(test.parts[0], walk, sure)
            return None if outcome is None else not outcome
        case "-prune":
            walk.pruned |= sure
            return True
        case "-delete" | "-exec" | "-execdir" | "-ok" | "-okdir":
            walk.reached.add(id(test))
            if sure:
                walk.surely.add(id(test))
            return True if test.kind == "-delete" else None
        case _:
            return _simple(test, walk)


def _chain(parts: list[_Test], walk: _Walk, sure: bool, *, decides: bool) -> bool | None:
    """Tests one after the other until one answers `decides`; after an unknown answer the rest is only maybe reached."""
    result: bool | None = not decides
    for part in parts:
        outcome = _evaluate(part, walk, sure)
        if outcome is decides:
            return decides
        if outcome is None:
            result, sure = None, False
    return result


def _simple(test: _Test, walk: _Walk) -> bool | None:
    if test.kind in _PRINTS:
        walk.reached.add(id(test))
        return True
    if test.kind in _ALWAYS or test.kind == "-true":
        return True
    if test.kind == "-false":
        return False
    if test.kind in ("-type", "-xtype"):
        return None if not test.value or unknown(test.value) else ("d" if walk.folder else "f") in test.value
    if test.kind in ("-name", "-iname"):
        return _matches(test.value, walk.path.rpartition("/")[2], fold=test.kind == "-iname")
    if test.kind in ("-path", "-ipath", "-wholename", "-iwholename"):
        return _matches(test.value, walk.path, fold=test.kind.startswith("-i"))
    return None


def _matches(pattern: str, text: str, *, fold: bool) -> bool | None:
    if unknown(pattern):
        return None
    try:
        return re.fullmatch(glob_regex(show(pattern)), text, re.IGNORECASE if fold else 0) is not None
    except re.error:
        return None


def _walk(tree: _Test, start: str, below: str, *, prunes: bool) -> _Walk:
    """Send a made-up path through the expression; a pruned folder above it stops it."""
    parts = below.split("/") if below else []
    for depth in range(1, len(parts)):
        folder = _Walk(start.rstrip("/") + "/" + "/".join(parts[:depth]), folder=True)
        _evaluate(tree, folder, sure=True)
        if folder.pruned and prunes:
            return _Walk(folder.path, folder=True)
    is_folder = below in ("", ".git", "zq7")
    walk = _Walk(start.rstrip("/") + "/" + below if below else start, folder=is_folder)
    _evaluate(tree, walk, sure=True)
    return walk


def _wanted_name(tree: _Test) -> str:
    """The name pattern that everything reaching the action must match; SAFE when other tests restrict it."""
    if tree.kind == "and":
        for part in tree.parts:
            if part.kind in ("-name", "-iname") and part.value and not unknown(part.value):
                return part.value.replace("*", STAR)
    return SAFE


def _find(machine: Machine, inv: Invocation) -> list[State]:
    words = [word for word in inv.args if word == "" or word.strip(GONE)]
    while words and re.fullmatch(r"-[HLP]|-O\d|-D\w*", words[0]):
        words = words[1:]
    cut = next((number for number, word in enumerate(words) if re.match(r"-[a-zA-Z]|[!()]$|,$", word)), len(words))
    starts, rest = words[:cut] or ["."], words[cut:]
    parser = _Parser(rest)
    tree = parser.expression()
    state = inv.state
    printed: list[str] = []
    deletes = any(action.kind == "-delete" for action in parser.actions)
    silent = any(action.kind in ("-delete", "-exec", "-execdir", "-ok", "-okdir") for action in parser.actions)
    for start in starts:
        for action in parser.actions:
            if action.kind in _PRINTS:
                continue
            for path in _representatives(machine, tree, start, state, action, prunes=not deletes):
                _act(machine, inv, action, path, start)
        if not silent or any(action.kind in _PRINTS for action in parser.actions):
            target = next((action for action in parser.actions if action.kind in _PRINTS), None)
            printed += _representatives(machine, tree, start, state, target, prunes=not deletes)
    separator = "\0" if any(action.kind in ("-print0", "-fprint0") for action in parser.actions) else "\n"
    state.say("".join(path + separator for path in printed) if printed else HOLE)
    return [state.done(None)]


def _act(machine: Machine, inv: Invocation, action: _Test, path: str, start: str) -> None:
    if action.kind == "-delete":
        if machine.dialect == "rm" and (finding := judge_target(machine, path, inv.state)):
            machine.block(
                Finding(
                    finding.rule, finding.reason, finding.instead or INSIDE, (f"find {show(start)} ... -delete",), finding.target
                )
            )
        return
    argv = [word.replace("{}", path) for word in action.words]
    run_external(machine, Invocation(inv.argv, inv.state.copy(), inv.env), argv)


def _representatives(machine: Machine, tree: _Test, start: str, state: State, action: _Test | None, *, prunes: bool) -> list[str]:
    """A few words that stand for every path which reaches the action."""
    if unknown(start) or UNSET in start or not strip_nothing(start):
        return [HOLE if unknown(start) else start]
    machine.tick(4)
    root = absolute(start, state)
    prefix = start.rstrip("/") or "/"
    wild = prefix.rstrip("/") + "/" + DEEP + "/"
    if root is None or not literal(start):
        return [wild + STAR]
    if not inside(machine.world, machine.world.realpath(root)):
        return [wild + _wanted_name(tree), prefix]
    holds_git = judge_place(machine.world, root, start) is not None

    def reaches(walk: _Walk) -> bool:
        if action is not None:
            return id(action) in walk.reached
        return _evaluate(tree, walk, sure=True) is not False and walk.path != ""

    found: list[str] = []
    if holds_git:
        found += [prefix.rstrip("/") + "/" + path for path in _GIT_PATHS if reaches(_walk(tree, start, path, prunes=prunes))][:1]
    if (
        holds_git
        and action is not None
        and action.kind != "-delete"
        and reaches(_walk(tree, start, "", prunes=prunes))
        and _sure(tree, start, "", action)
    ):
        found.append(prefix)
    everything = all(_sure(tree, start, path, action) for path in _OTHER_PATHS[1:])
    found.append(wild + (STAR if everything else _wanted_name(tree)))
    return found


def _sure(tree: _Test, start: str, path: str, action: _Test | None) -> bool:
    walk = _walk(tree, start, path, prunes=False)
    if action is None:
        return _evaluate(tree, walk, sure=True) is True
    return id(action) in walk.surely or (action.kind in _PRINTS and id(action) in walk.reached)


def _fd(machine: Machine, inv: Invocation) -> list[State]:
    """`fd PATTERN [PATH...] -x CMD`."""
    words = list(inv.args)
    command: list[str] = []
    for number, word in enumerate(words):
        if word in ("-x", "-X", "--exec", "--exec-batch"):
            command, words = words[number + 1 :], words[:number]
            break
    _, rest = leading(
        _options_first(words), "-e -t -d -E -c -j -S --extension --type --max-depth --exclude --changed-within --glob"
    )
    paths = rest[1:] or ["."]
    everything = not rest or rest[0] in (".", "", ".*")
    out: list[str] = []
    for path in paths:
        item = path if not strip_nothing(path) else path.rstrip("/") + "/" + DEEP + "/" + (STAR if everything else SAFE)
        out.append(item)
        if command:
            held = any("{" in word for word in command)
            argv = [word.replace("{}", item) for word in command] if held else [*command, item]
            run_external(machine, Invocation(inv.argv, inv.state.copy(), inv.env), argv)
    inv.state.say("".join(item + "\n" for item in out) if not command else HOLE)
    return [inv.state.done(None)]


def _options_first(words: Iterable[str]) -> list[str]:
    given = list(words)
    return [word for word in given if word.startswith("-")] + [word for word in given if not word.startswith("-")]


FINDERS: dict[str, Handler] = {"find": _find, "gfind": _find, "fd": _fd, "fdfind": _fd}
