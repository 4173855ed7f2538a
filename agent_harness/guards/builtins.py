"""Commands of the shell itself that change its state."""

from __future__ import annotations

import posixpath
import re

from agent_harness.guards.machine import Finding, Handler, Invocation, Machine
from agent_harness.guards.marks import HOLE, PATTERN, STORED, TEST, UNSET, plain_list, show, strip_nothing, unknown, vague
from agent_harness.guards.printing import print_format
from agent_harness.guards.state import State, Value
from agent_harness.guards.targets import absolute, real

_NAME = re.compile(r"[A-Za-z_]\w*")


def _folder(machine: Machine, inv: Invocation, word: str) -> list[tuple[str | None, bool | None]]:
    """Where `cd WORD` may lead, with whether it works: True when the folder is there, None when it may not be."""
    state, world = inv.state, machine.world
    if vague(word):
        text = strip_nothing(word)
        wanted = None if unknown(text) or not PATTERN.search(text) else absolute(text, state)
        folders = [match for match in world.glob(show(wanted)) if world.is_dir(match)] if wanted else []
        return [(folders[0], True)] if len(folders) == 1 else [(None, None)]
    places: list[str | None] = [absolute(word, state)]
    search = inv.getenv("CDPATH") or state.get("CDPATH")
    if search and not word.startswith(("/", "./", "../")) and word not in (".", ".."):
        if unknown(search):
            return [(None, None)]
        places = [absolute(posixpath.join(part or ".", word), state) for part in search.split(":")] + places
    found: list[tuple[str | None, bool | None]] = []
    for place in places:
        if place is None:
            return [*found, (None, None)]
        there = real(world, state, place)
        if world.is_dir(there):
            return [*found, (place, True)]
        found.append((place, None))
    return found


def _go(state: State, place: str | None) -> None:
    state.oldcwd, state.cwd = state.cwd, place
    state.variables["PWD"] = place or HOLE


def _cd(machine: Machine, inv: Invocation) -> list[State]:
    state = inv.state
    words = [word for word in inv.args if not re.fullmatch(r"-[LPe@]+|--", word)]
    home = state.get("HOME") or machine.world.home
    word = words[0] if words else home
    if word == "-":
        _go(state, state.oldcwd)
        state.say((state.cwd or HOLE) + "\n")
        return [state.done(True)]
    if word == "":
        return [state.done(True)]
    places = _folder(machine, inv, word)
    results: list[State] = []
    for place, works in places:
        there = state.copy()
        _go(there, place)
        results.append(there.done(True))
        if works:
            return results
    return [*results, state.done(False)]


def _pushd(machine: Machine, inv: Invocation) -> list[State]:
    words = [word for word in inv.args if word != "-n"]
    state = inv.state
    if not words or re.fullmatch(r"[+-]\d+", words[0]):
        _go(state, state.folders[0] if state.folders and not words else None)
        return [state.done(True)]
    before = state.cwd
    results = _cd(machine, inv.nested(["cd", *words]))
    for result in results:
        if result.status:
            result.folders = (before, *state.folders)
            result.say(HOLE)
    return results


def _popd(machine: Machine, inv: Invocation) -> list[State]:
    _ = machine
    state = inv.state
    if inv.args or not state.folders:
        if inv.args:
            _go(state, None)
        return [state.done(not inv.args)]
    _go(state, state.folders[0])
    state.folders = state.folders[1:]
    state.say(HOLE)
    return [state.done(True)]


def _set(machine: Machine, inv: Invocation) -> list[State]:
    _ = machine
    state, words = inv.state, plain_list(inv.args)
    at = 0
    while at < len(words) and words[at][:1] in ("-", "+") and len(words[at]) > 1:
        word = words[at]
        at += 1
        if word == "--":
            state.args = tuple(words[at:])
            return [state.done(True)]
        on = word[0] == "-"
        names = {"e": "errexit", "a": "allexport"}
        chosen = [names[letter] for letter in word[1:] if letter in names]
        if "o" in word[1:] and at < len(words):
            chosen.append(words[at])
            at += 1
        state.options = state.options | set(chosen) if on else state.options - set(chosen)
    if at < len(words):
        state.args = tuple(words[at:])
    return [state.done(True)]


def _shopt(machine: Machine, inv: Invocation) -> list[State]:
    _ = machine
    names = {word for word in inv.args if not word.startswith("-")}
    state = inv.state
    state.options = state.options | names if "-s" in inv.args else state.options - names if "-u" in inv.args else state.options
    return [state.done(True)]


def _shift(machine: Machine, inv: Invocation) -> list[State]:
    _ = machine
    count = int(inv.args[0]) if inv.args and inv.args[0].isdigit() else 1
    inv.state.args = inv.state.args[count:]
    return [inv.state.done(None)]


def _declare(machine: Machine, inv: Invocation) -> list[State]:
    _ = machine
    state = inv.state
    exports = inv.name == "export" or any(re.fullmatch(r"-\w*x\w*", word) for word in inv.args)
    for word in inv.args:
        name, equals, value = word.partition("=")
        if word.startswith("-") or not _NAME.fullmatch(name):
            continue
        if equals:
            state.set(name, value)
        if exports:
            state.exported |= {name}
    return [state.done(True)]


def _unset(machine: Machine, inv: Invocation) -> list[State]:
    _ = machine
    state = inv.state
    for word in inv.args:
        if unknown(word):
            state.variables = dict.fromkeys(state.variables, HOLE)
        state.variables.pop(word, None)
        state.functions.pop(word, None)
    return [state.done(True)]


_READ_VALUES = frozenset("adinNptu")


def _read(machine: Machine, inv: Invocation) -> list[State]:
    _ = machine
    state = inv.state
    names: list[str] = []
    skip, array = False, False
    for word in inv.args:
        if skip:
            skip = False
            if array:
                names.append(word)
                array = False
        elif word.startswith("-") and len(word) > 1:
            skip = word[-1] in _READ_VALUES
            array = word[-1] == "a"
        else:
            names.append(word)
    names = names or ["REPLY"]
    delimiter = "\0" if any(word in ("-d", "") for word in inv.args) and "-d" in inv.args else "\n"
    line, found, rest = state.stdin.partition(delimiter)
    if unknown(state.stdin.partition(delimiter)[0]):
        for name in names:
            state.set(name, HOLE)
        state.stdin = HOLE
        return [state.done(None)]
    separators = inv.env.get("IFS", state.get("IFS") or " \t\n")
    line = line.strip("".join(char for char in separators if char in " \t"))
    several = len(names) > 1 and separators
    parts = re.split("[" + re.escape(separators) + "]+", line, maxsplit=len(names) - 1) if several else [line]
    for number, name in enumerate(names):
        state.set(name, parts[number] if number < len(parts) else "")
    state.stdin = rest
    return [state.done(bool(found) or bool(line))]


def _map_file(machine: Machine, inv: Invocation) -> list[State]:
    _ = machine
    words = [word for word in inv.args if not word.startswith("-")]
    name = words[-1] if words else "MAPFILE"
    text = inv.state.stdin
    value: Value = (HOLE,) if unknown(text) else tuple(re.split(r"[\n\0]", text.rstrip("\n\0")))
    inv.state.set(name, value)
    return [inv.state.done(True)]


def _alias(machine: Machine, inv: Invocation) -> list[State]:
    _ = machine
    for word in inv.args:
        name, equals, value = word.partition("=")
        if equals:
            inv.state.aliases[name] = value
    return [inv.state.done(True)]


def _unalias(machine: Machine, inv: Invocation) -> list[State]:
    _ = machine
    for word in inv.args:
        inv.state.aliases.pop(word, None)
    return [inv.state.done(True)]


def _hash(machine: Machine, inv: Invocation) -> list[State]:
    _ = machine
    if inv.args[:1] == ["-p"] and len(inv.args) > 2:
        inv.state.programs[inv.args[2]] = inv.args[1]
    return [inv.state.done(True)]


def _leave(machine: Machine, inv: Invocation) -> list[State]:
    _ = machine
    inv.state.flow = inv.name
    code = inv.args[0] if inv.args else ""
    return [inv.state.done(code == "0" if code.isdigit() else None if inv.name in ("exit", "return") else True)]


def _printf(machine: Machine, inv: Invocation) -> list[State]:
    _ = machine
    words, state = inv.args, inv.state
    variable = ""
    if words[:1] == ["-v"] and len(words) > 1:
        variable, words = words[1], words[2:]
    if words[:1] == ["--"]:
        words = words[1:]
    text = print_format(plain_list(words))
    if variable:
        state.set(variable, text)
    else:
        state.say(text)
    return [state.done(True)]


def _eval(machine: Machine, inv: Invocation) -> list[State]:
    return machine.run_code(" ".join(code_words(machine, inv.args)), inv.state)


def code_words(machine: Machine, words: list[str]) -> list[str]:
    """Words that are about to be run as code; a word of which nothing is known is refused."""
    for word in words:
        if not strip_nothing(word) and UNSET in word:
            machine.block(opaque(word, "a variable that is not set is run as code"))
    return plain_list(words)


def opaque(word: str, reason: str) -> Finding:
    """Code that nobody can read before it runs."""
    return Finding(
        "shell.opaque",
        reason,
        "put the commands into a file with edit_file, or write them out, so that they can be read",
        (show(word),),
    )


def _source(machine: Machine, inv: Invocation) -> list[State]:
    if not inv.args:
        return [inv.state.done(False)]
    state = inv.state
    text = machine.read_file(inv.args[0], state)
    if inv.args[0].startswith(("/dev/fd/", "/dev/stdin", STORED)) and unknown(text) and not text.strip(HOLE).strip():
        machine.block(opaque(inv.args[0], "what it would run cannot be known before it runs"))
    if not text or not text.strip(HOLE).strip():
        return [state.done(None)]
    return machine.run_code(text.strip(HOLE), state)


def _trap(machine: Machine, inv: Invocation) -> list[State]:
    _ = machine
    words = [word for word in inv.args if word != "--"]
    if words and not words[0].startswith("-") and words[0]:
        inv.state.traps = (*inv.state.traps, words[0])
    return [inv.state.done(True)]


def _true(machine: Machine, inv: Invocation) -> list[State]:
    _ = machine
    return [inv.state.done(inv.name in ("true", ":"))]


def _test(machine: Machine, inv: Invocation) -> list[State]:
    _ = machine
    return [inv.state.done(None)]


BUILTINS: dict[str, Handler] = {
    "cd": _cd, "chdir": _cd, "pushd": _pushd, "popd": _popd, "set": _set, "shopt": _shopt, "shift": _shift,
    "export": _declare, "declare": _declare, "typeset": _declare, "readonly": _declare, "local": _declare, "unset": _unset,
    "read": _read, "mapfile": _map_file, "readarray": _map_file, "alias": _alias, "unalias": _unalias, "hash": _hash,
    "exit": _leave, "return": _leave, "break": _leave, "continue": _leave, "printf": _printf, "eval": _eval, "source": _source,
    ".": _source, "trap": _trap, "true": _true, "false": _true, ":": _true, "test": _test, "[": _test, "[[": _test, "let": _test,
    "wait": _test, "jobs": _test,
    "umask": _test, "ulimit": _test, "times": _test, "getopts": _test, "enable": _test, "bind": _test,
    "type": _test, "kill": _test, "disown": _test, "bg": _test, "fg": _test, "sleep": _test, "}": _test, TEST: _test,
}  # fmt: skip
