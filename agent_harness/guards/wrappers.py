"""Programs that run the command in their arguments: each is stripped by its own option table."""

from __future__ import annotations

import re
import shlex

from agent_harness.guards.builtins import BUILTINS
from agent_harness.guards.machine import Handler, Invocation, Machine
from agent_harness.guards.marks import GAP, HOLE, PATTERN, plain_list, unknown
from agent_harness.guards.options import leading, name_set, whole_option
from agent_harness.guards.state import State, distinct
from agent_harness.guards.targets import absolute

# Name -> options that take a value, and how many words of its own stand before the command.
_PLAIN: dict[str, tuple[str, int]] = {
    "nice": ("-n --adjustment", 0),
    "ionice": ("-c -n -p --class --classdata", 0),
    "nohup": ("", 0),
    "setsid": ("", 0),
    "stdbuf": ("-i -o -e --input --output --error", 0),
    "time": ("-f -o --format --output", 0),
    "gtime": ("-f -o --format --output", 0),
    "coproc": ("", 0),
    "timeout": ("-k -s --kill-after --signal", 1),
    "gtimeout": ("-k -s --kill-after --signal", 1),
    "sudo": ("-u -g -p -C -h -r -t -T -U -D -R --user --group --prompt --chdir --host --chroot", 0),
    "doas": ("-u -C", 0),
    "pkexec": ("--user", 0),
    "gosu": ("", 1),
    "su-exec": ("", 1),
    "setpriv": ("--reuid --regid --groups --inh-caps --ambient-caps --bounding-set", 0),
    "chroot": ("--userspec --groups", 1),
    "strace": ("-o -e -p -s -a -b -E -I -O -P -S -u -U -X", 0),
    "ltrace": ("-o -e -p -s -a -n -u -l -x", 0),
    "unshare": ("--map-user --map-group --setuid --setgid -S -G -R -w --root --wd --propagation --kill-child --setgroups", 0),
    "nsenter": ("-t --target -S -G --setuid --setgid", 0),
    "taskset": ("", 1),
    "chrt": ("-T -P -D", 1),
    "caffeinate": ("-t -w", 0),
    "fakeroot": ("-l -s -i -b", 0),
    "eatmydata": ("", 0),
    "unbuffer": ("", 0),
    "torsocks": ("", 0),
    "proxychains": ("-f", 0),
    "proxychains4": ("-f", 0),
    "catchsegv": ("", 0),
    "xvfb-run": ("-a -e -f -n -p -s -w --server-num --server-args", 0),
    "dbus-run-session": ("--config-file", 0),
    "systemd-run": ("-u -p -E -M --unit --property --setenv --uid --gid --slice --working-directory", 0),
    "direnv": ("", 2),
    "entr": ("", 0),
    "npx": ("-p --package -w", 0),
    "bunx": ("", 0),
    "uvx": ("--from --with --python -p", 0),
    "pipx": ("--spec --python", 1),
    "busybox": ("", 0),
    "toybox": ("", 0),
    "winpty": ("", 0),
    "rlwrap": ("", 0),
    "faketime": ("-f", 1),
    "arch": ("", 0),
    "linux32": ("", 0),
    "linux64": ("", 0),
    "noglob": ("", 0),
    "nocorrect": ("", 0),
    "then": ("", 0),
}
# Runners whose first word says that a command follows: `uv run CMD`.
_RUNNERS: dict[str, frozenset[str]] = {
    "uv": frozenset(("run",)),
    "poetry": frozenset(("run",)),
    "pipenv": frozenset(("run",)),
    "hatch": frozenset(("run",)),
    "rye": frozenset(("run",)),
    "pdm": frozenset(("run",)),
    "bundle": frozenset(("exec",)),
    "mise": frozenset(("exec", "x")),
    "asdf": frozenset(("exec",)),
    "pnpm": frozenset(("exec", "dlx")),
    "yarn": frozenset(("exec", "dlx")),
    "npm": frozenset(("exec", "x")),
    "bun": frozenset(("x",)),
    "rtx": frozenset(("exec",)),
}
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_ENV_LONG = name_set("--unset --chdir --split-string --argv0 --ignore-environment --null --debug --block-signal")
MAX_ITEMS = 48


def run_external(
    machine: Machine, inv: Invocation, argv: list[str], env: dict[str, str] | None = None, cwd: str | None = ""
) -> list[State]:
    """Run a command in a process of its own: the shell's folder stays where it is.

    Args:
        machine: runs it.
        inv: the wrapper.
        argv: the command; nothing happens when it is empty.
        env: variables instead of the wrapper's own.
        cwd: another folder; empty for the same one.
    """
    if not argv:
        inv.state.say(HOLE)
        return [inv.state.done(None)]
    state = inv.state
    before = (state.cwd, state.oldcwd, state.variables.get("PWD"))
    if cwd != "":
        state.cwd = cwd
    nested = inv.nested(argv, {**inv.env, **(env or {})})
    results = machine.dispatch(nested)
    for result in results:
        result.cwd, result.oldcwd = before[0], before[1]
        result.flow = "" if argv[0] not in ("exit", "return") else result.flow
        if before[2] is not None:
            result.variables["PWD"] = before[2]
    return results


def _plain(machine: Machine, inv: Invocation) -> list[State]:
    taking, own = _PLAIN[inv.name]
    options, rest = leading(inv.args, taking)
    if inv.name in ("sudo", "nsenter") and any(name in ("-s", "-i", "--shell", "--login") for name, _ in options) and rest:
        return machine.run_child(" ".join(rest), inv)
    folder = next((value for name, value in options if name in ("-D", "--chdir", "--wd", "--working-directory")), "")
    rest = rest[own:]
    env: dict[str, str] = {}
    while rest and (match := _ASSIGNMENT.match(rest[0])):
        env[match.group(1)] = match.group(2)
        rest = rest[1:]
    # `time { ...; }` reaches here in pieces: the brace opens a group.
    if inv.name in ("time", "coproc"):
        if len(rest) > 1 and inv.name == "coproc" and rest[1] == "{":
            rest = rest[1:]
        rest = rest[1:] if rest[:1] in (["{"], ["!"]) else rest
        return machine.dispatch(inv.nested(rest)) if rest else [inv.state.done(None)]
    return run_external(machine, inv, rest, env, absolute(folder, inv.state) if folder else "")


def _runner(machine: Machine, inv: Invocation) -> list[State]:
    words = [word for word in inv.args if word.strip()]
    if words[:1] and words[0] in _RUNNERS[inv.name]:
        _, rest = leading(words[1:], "-p --package --with --python --project --directory -c --call")
        if rest:
            return run_external(machine, inv, rest)
    inv.state.say(HOLE)
    return [inv.state.done(None)]


def _env_option(words: list[str], at: int) -> tuple[str, str, int]:
    """The option at an index of `env`'s words as (one of `uCSa` or empty, its value), and how many words it took."""
    word = words[at]
    following = words[at + 1] if at + 1 < len(words) else ""
    if word.startswith("--"):
        name, equals, value = word.partition("=")
        name = whole_option(name, _ENV_LONG)
        letter = {"--unset": "u", "--chdir": "C", "--split-string": "S", "--argv0": "a"}.get(name, "")
        return letter, value if equals or not letter else following, 1 + (bool(letter) and not equals)
    for number, letter in enumerate(word[1:], 2):
        if letter in "uCSa":
            attached = word[number:]
            return letter, attached or following, 1 + (not attached)
    return "", "", 1


def _env(machine: Machine, inv: Invocation) -> list[State]:
    words = list(inv.args)
    env: dict[str, str] = {}
    folder: str | None = ""
    at = 0
    while at < len(words):
        if match := _ASSIGNMENT.fullmatch(words[at]):
            env[match.group(1)] = match.group(2)
            at += 1
            continue
        if not words[at].startswith("-") or words[at] == "--":
            at += words[at] == "--"
            break
        letter, value, taken = _env_option(words, at)
        at += taken
        if letter == "C":
            folder = absolute(value, inv.state)
        elif letter == "S":
            try:
                words[at:at] = shlex.split(value)
            except ValueError:
                words[at:at] = [GAP]
    while at < len(words) and (match := _ASSIGNMENT.fullmatch(words[at])):
        env[match.group(1)] = match.group(2)
        at += 1
    return run_external(machine, inv, words[at:], env, folder)


def _command(machine: Machine, inv: Invocation) -> list[State]:
    options, rest = leading(inv.args, "-a" if inv.name == "exec" else "")
    if inv.name == "command" and any(name in ("-v", "-V") for name, _ in options):
        inv.state.say(f"/usr/bin/{rest[0]}\n" if len(rest) == 1 and not unknown(rest[0]) else HOLE)
        return [inv.state.done(None)]
    if not rest:
        return [inv.state.done(True)]
    saved = inv.state.functions
    inv.state.functions = {name: body for name, body in saved.items() if name != rest[0]}
    if inv.name == "builtin" and rest[0] not in BUILTINS and rest[0] not in ("command", "exec", "builtin", "echo", "pwd"):
        inv.state.functions = saved
        return [inv.state.done(False)]
    results = machine.dispatch(inv.nested(rest))
    for result in results:
        result.functions = {**saved, **result.functions}
        if inv.name == "exec":
            result.flow = "exit"
    return results


def _flock(machine: Machine, inv: Invocation) -> list[State]:
    _, rest = leading(inv.args, "-w -E --timeout --wait --conflict-exit-code")
    rest = rest[1:]
    if rest[:1] in (["-c"], ["--command"]) and len(rest) > 1:
        return machine.run_child(rest[1], inv)
    return run_external(machine, inv, rest)


def split_items(text: str, separator: str | None) -> list[str]:
    """What xargs makes of its input: words, or the pieces between separators; unknown input is any number of words."""
    if separator is not None:
        return [piece.replace(HOLE, GAP) for piece in text.split(separator) if piece]
    try:
        words = shlex.split(text) if "'" in text or '"' in text or "\\" in text else text.split()
    except ValueError:
        return [GAP]
    return [word.replace(HOLE, GAP) for word in words]


def _xargs(machine: Machine, inv: Invocation) -> list[State]:
    options, rest = leading(
        inv.args, "-n -P -I -s -d -a -E -L --max-args --max-procs --replace --delimiter --arg-file --max-lines"
    )
    chosen = dict(options)
    separator = "\0" if {"-0", "--null"} & chosen.keys() else None
    for name in ("-d", "--delimiter"):
        if name in chosen:
            separator = {"\\n": "\n", "\\0": "\0", "\\t": "\t"}.get(chosen[name], chosen[name] or None)
    source = chosen.get("-a") or chosen.get("--arg-file")
    text = machine.read_file(source, inv.state) if source else inv.state.stdin
    place = chosen.get("-I") or chosen.get("--replace") or ("{}" if {"-i", "--replace"} & chosen.keys() else "")
    items = split_items(text, "\n" if place and separator is None else separator)
    inv.state.stdin = ""
    return _with_items(machine, inv, rest or ["echo"], items, place)


def _with_items(machine: Machine, inv: Invocation, command: list[str], items: list[str], place: str) -> list[State]:
    """Run a command on items: each in the place held for it, or all behind its words."""
    if len(items) > MAX_ITEMS:
        items = [*items[:MAX_ITEMS], GAP]
    if not place:
        return run_external(machine, inv, [*command, *items])
    states = [inv.state]
    for item in items:
        after: list[State] = []
        for state in states:
            argv = [word.replace(place, item.replace(GAP, HOLE)) for word in command]
            after += run_external(machine, Invocation(inv.argv, state, inv.env, inv.redirects), argv)
        states = distinct(after)
    return states


def _parallel(machine: Machine, inv: Invocation) -> list[State]:
    _, rest = leading(inv.args, "-j --jobs -a --arg-file -n -N -S --delay --timeout --results --joblog -d -I --colsep")
    marks = [number for number, word in enumerate(rest) if word in (":::", "::::", ":::+")]
    if marks:
        command, items = rest[: marks[0]], [word for word in rest[marks[0] :] if not word.startswith(":::")]
        if "::::" in rest:
            items = [GAP]
    else:
        command, items = rest, split_items(inv.state.stdin, "\n")
    if not command:
        states = [inv.state]
        for item in items[:MAX_ITEMS]:
            states = [end for state in states for end in machine.run_child(item, Invocation(inv.argv, state, inv.env))]
        return states
    held = any("{}" in word for word in command)
    if len(command) == 1 and re.search(r"\s", command[0]):
        command = command[0].split() if not re.search(r"[;&|$`'\"]", command[0]) else ["sh", "-c", command[0]]
    return _with_items(machine, inv, command, items, "{}" if held else "")


def suffix_command(inv: Invocation) -> list[str] | None:
    """For a program that nobody knows: the part of its words that would be dangerous if it runs them as a command."""
    words = plain_list(inv.args)
    for number, word in enumerate(words):
        name = word.rpartition("/")[2]
        after = words[number + 1 :]
        if name == "rm" and any(re.fullmatch(r"-[a-zA-Z]*[rRf][a-zA-Z]*|--(recursive|force)", each) for each in after):
            return words[number:]
        if name == "git" and "push" in after and not PATTERN.search(word):
            return words[number:]
        if name in ("sh", "bash", "zsh", "dash") and "-c" in after:
            return words[number:]
    return None


WRAPPERS: dict[str, Handler] = {
    **dict.fromkeys(_PLAIN, _plain),
    **dict.fromkeys(_RUNNERS, _runner),
    "env": _env,
    "command": _command,
    "builtin": _command,
    "exec": _command,
    "flock": _flock,
    "xargs": _xargs,
    "parallel": _parallel,
}
