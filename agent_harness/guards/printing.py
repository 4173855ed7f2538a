"""Programs whose output is followed, so that what they feed into a shell, xargs or a word can be judged."""

from __future__ import annotations

import posixpath
import re

from agent_harness.guards.expand import decode_ansi
from agent_harness.guards.machine import Handler, Invocation, Machine
from agent_harness.guards.marks import HOLE, SAFE, STAR, literal, plain_list, show, unknown
from agent_harness.guards.options import operands, values_of
from agent_harness.guards.state import State
from agent_harness.guards.targets import absolute, real

_FORMAT = re.compile(r"%(?:%|-?\d*(?:\.\d+)?([sbqdiuxXc]))")


def print_format(words: list[str]) -> str:
    """What printf prints for a format and its arguments."""
    if not words:
        return ""
    form, items = words[0], words[1:]
    if unknown(form):
        return HOLE
    form = decode_ansi(form) if "\\" in form else form
    slots = sum(1 for match in _FORMAT.finditer(form) if match.group(1))
    out: list[str] = []
    while True:
        taken, items = items[:slots], items[slots:]
        feed = iter(taken)
        out.append(_FORMAT.sub(lambda match, feed=feed: next(feed, "") if match.group(1) else "%", form))
        if not slots or not items or len(out) > 500:
            return "".join(out)


def _echo(machine: Machine, inv: Invocation) -> list[State]:
    _ = machine
    words = plain_list(inv.args)
    end, escapes = "\n", False
    while words and re.fullmatch(r"-[neE]+", words[0]):
        flag = words.pop(0)
        end = "" if "n" in flag else end
        escapes = "e" in flag or (escapes and "E" not in flag)
    text = " ".join(words)
    inv.state.say((decode_ansi(text) if escapes else text) + end)
    return [inv.state.done(True)]


def _pwd(machine: Machine, inv: Invocation) -> list[State]:
    _ = machine
    inv.state.say((inv.state.cwd or HOLE) + "\n")
    return [inv.state.done(True)]


def _cat(machine: Machine, inv: Invocation) -> list[State]:
    state = inv.state
    files = operands(inv.args, "")
    for file in files or ["-"]:
        state.say(state.stdin if file in ("-", "/dev/stdin") else machine.read_file(file, state))
    return [state.done(None)]


def _tee(machine: Machine, inv: Invocation) -> list[State]:
    _ = machine
    state = inv.state
    for word in operands(inv.args, ""):
        path = absolute(word, state)
        if path and literal(path):
            state.files[path] = state.stdin
    state.say(state.stdin)
    return [state.done(True)]


def _filter(machine: Machine, inv: Invocation) -> list[State]:
    """A program that prints part of its input: nothing that was not there is added."""
    _ = machine
    state = inv.state
    files = operands(inv.args, "-n -c -k -t -e -f -A -B -C -m --lines --bytes")
    reads_input = len(files) <= (1 if inv.name in ("grep", "egrep", "fgrep", "rg") else 0)
    state.say(state.stdin if reads_input and not unknown(state.stdin) else HOLE)
    return [state.done(None)]


def _sequence(machine: Machine, inv: Invocation) -> list[State]:
    _ = machine
    words = operands(inv.args, "-s -f")
    numbers = [int(word) for word in words if re.fullmatch(r"-?\d{1,4}", word)]
    if len(numbers) != len(words) or not 1 <= len(numbers) <= 2 or numbers[-1] > 200:
        inv.state.say(HOLE)
    else:
        first = numbers[0] if len(numbers) == 2 else 1
        inv.state.say("".join(f"{number}\n" for number in range(first, numbers[-1] + 1)))
    return [inv.state.done(True)]


def _make_temporary(machine: Machine, inv: Invocation) -> list[State]:
    _ = machine
    state = inv.state
    folder = inv.getenv("TMPDIR") or "/tmp"
    given = values_of(inv.args, "-p --tmpdir")
    words = operands(inv.args, "-p")
    template = words[0] if words else "tmp." + "X" * 10
    if given and given[0]:
        folder = given[0]
    elif words and not any(word.startswith(("--tmpdir", "-t")) for word in inv.args):
        folder = ""
    name = re.sub("X{3,}", SAFE, template)
    state.say((folder.rstrip("/") + "/" + name if folder else name) + "\n")
    return [state.done(True)]


def _base_name(machine: Machine, inv: Invocation) -> list[State]:
    _ = machine
    words = operands(inv.args, "-s --suffix")
    if not words or unknown(words[0]):
        inv.state.say(HOLE)
    else:
        head, tail = posixpath.split(words[0].rstrip("/"))
        inv.state.say((tail if inv.name == "basename" else head or ".") + "\n")
    return [inv.state.done(True)]


def _real_path(machine: Machine, inv: Invocation) -> list[State]:
    words = operands(inv.args, "--relative-to --relative-base")
    path = absolute(words[0], inv.state) if words and literal(words[0]) else None
    relative = any(word.startswith("--relative") for word in inv.args)
    known = (
        path is not None and not relative and (inv.name == "realpath" or any("f" in word or "e" in word for word in inv.args[:1]))
    )
    inv.state.say(real(machine.world, inv.state, path) + "\n" if known and path else HOLE)
    return [inv.state.done(None)]


def _which(machine: Machine, inv: Invocation) -> list[State]:
    _ = machine
    words = operands(inv.args, "")
    inv.state.say(f"/usr/bin/{words[0]}\n" if len(words) == 1 and literal(words[0]) else HOLE)
    return [inv.state.done(None)]


def _list(machine: Machine, inv: Invocation) -> list[State]:
    """`ls` prints the names in a folder without it, so that they could be anything where they are used."""
    words = operands(inv.args, "-I -w --ignore")
    patterns = [word for word in words if not literal(word) and not unknown(word) and not word.endswith("/")]
    matches = [match for word in patterns for match in machine.world.glob(show(absolute(word, inv.state) or "/"))]
    as_written = any("d" in word for word in inv.args if word.startswith("-")) or not any(map(machine.world.is_dir, matches))
    if patterns and len(patterns) == len(words) and as_written:
        inv.state.say("\n".join(patterns) + "\n")
    elif any(re.fullmatch(r"-\w*l\w*", word) for word in inv.args):
        inv.state.say(HOLE)
    else:
        inv.state.say((".git\n" if any(re.fullmatch(r"-\w*[aA]\w*", word) for word in inv.args) else "") + STAR + "\n")
    return [inv.state.done(None)]


def _copy_text(machine: Machine, inv: Invocation) -> list[State]:
    """`cp`, `mv`, `ln`, `install`: what they put behind a name that is used later."""
    state, world = inv.state, machine.world
    words = [word for word in operands(inv.args, "-t --target-directory -S -m -o -g") if word]
    inv.state.say("")
    if len(words) != 2 or unknown(words[0]) or unknown(words[1]):
        return [state.done(None)]
    source, target = absolute(words[0], state), absolute(words[1], state)
    if source is None or target is None:
        return [state.done(None)]
    if world.is_dir(target) and not any(word in ("-T", "-n", "-sfn", "-sfT") for word in inv.args):
        target = posixpath.join(target, posixpath.basename(words[0]))
    if inv.name == "ln" and any(re.fullmatch(r"-\w*s\w*|--symbolic", word) for word in inv.args):
        state.links[target] = words[0]
    if words[0].startswith(("/bin/", "/usr/bin/", "/sbin/", "/usr/sbin/", "/usr/lib/git-core/")):
        state.programs[target] = source
    if source in state.files:
        state.files[target] = state.files[source]
    return [state.done(None)]


def say_unknown(machine: Machine, inv: Invocation) -> list[State]:
    """Any other program: nobody knows what it prints."""
    _ = machine
    inv.state.say(HOLE)
    return [inv.state.done(None)]


PRINTERS: dict[str, Handler] = {
    "echo": _echo, "pwd": _pwd, "cat": _cat, "tee": _tee, "head": _filter, "tail": _filter, "sort": _filter, "uniq": _filter,
    "grep": _filter, "egrep": _filter, "fgrep": _filter, "rg": _filter,
    "seq": _sequence, "mktemp": _make_temporary, "basename": _base_name, "dirname": _base_name,
    "realpath": _real_path, "readlink": _real_path, "which": _which, "ls": _list, "cp": _copy_text, "mv": _copy_text,
    "ln": _copy_text, "install": _copy_text,
}  # fmt: skip
