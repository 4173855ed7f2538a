"""`${...}`: the operators of parameter expansion, on values that may hold marks."""

from __future__ import annotations

import re
from collections.abc import Callable

from agent_harness.guards.marks import ANY_MARK, CLOSE, DEEP, DIGITS, GAP, HOLE, ONE, OPEN, STAR, UNSET, strip_nothing
from agent_harness.guards.options import name_set
from agent_harness.guards.state import State, Value

_NAME = re.compile(r"[A-Za-z_]\w*|\d+|[@*#?$!-]")
_SUBSCRIPT = re.compile(r"\[([^\]]*)\]")
NUMBERS = name_set("? $ ! RANDOM SECONDS LINENO UID EUID PPID BASHPID EPOCHSECONDS SRANDOM COLUMNS LINES")


class Exits(Exception):
    """`${X:?}` on nothing: the shell ends here."""


def lookup(name: str, state: State) -> Value | None:
    """What a parameter is; None when it is not set."""
    if name.isdigit():
        number = int(name)
        if number == 0:
            return state.arg0
        return state.args[number - 1] if number <= len(state.args) else None
    if name in ("@", "*"):
        return state.args
    if name == "#":
        return str(len(state.args))
    if name in NUMBERS:
        return DIGITS
    if name == "PWD":
        return state.cwd or HOLE
    if name == "OLDPWD":
        return state.oldcwd or HOLE
    if name in state.variables:
        return state.variables[name]
    return {"-": "", "_": HOLE, "IFS": " \t\n", "BASH": "/bin/bash", "HOSTNAME": HOLE}.get(name)


def evaluate(body: str, state: State, expand: Callable[[str], str]) -> Value:
    """The value of `${body}`.

    Args:
        body: what stands between the braces.
        state: where parameters come from; `:=` assigns into it.
        expand: evaluates an operand to one text.

    Raises:
        Exits: `:?` ends the shell.
    """
    if body.startswith("#") and len(body) > 1:
        value = _fetch(body[1:], state)[0]
        return DIGITS if value is None or not isinstance(value, tuple) else str(len(value))
    if body.startswith("!"):
        return _indirect(body[1:], state, expand)
    match = _NAME.match(body)
    if match is None:
        return HOLE
    value, rest = _fetch(body, state)
    if not rest:
        return UNSET if value is None else value
    return _operate(match.group(), value, rest, state, expand)


def _fetch(text: str, state: State) -> tuple[Value | None, str]:
    """The value of the parameter at the head of the text, its subscript applied, and what follows."""
    match = _NAME.match(text)
    if match is None:
        return HOLE, ""
    value, rest = lookup(match.group(), state), text[match.end() :]
    subscript = _SUBSCRIPT.match(rest)
    if subscript is None:
        if isinstance(value, tuple) and match.group() not in "@*":
            value = value[0] if value else None
        return value, rest
    rest = rest[subscript.end() :]
    index = subscript.group(1)
    if value is None:
        return None, rest
    items = value if isinstance(value, tuple) else (value,)
    if index in ("@", "*"):
        return items, rest
    if index.lstrip("-").isdigit():
        number = int(index)
        return (items[number] if -len(items) <= number < len(items) else None), rest
    return HOLE, rest


def _indirect(text: str, state: State, expand: Callable[[str], str]) -> Value:
    match = re.fullmatch(r"([A-Za-z_]\w*)(.*)", text, re.DOTALL)
    if match is None or match.group(2)[:1] in ("@", "*", "["):
        return HOLE
    name = state.get(match.group(1))
    if name is None or not re.fullmatch(r"[A-Za-z_]\w*", name):
        return HOLE
    return evaluate(name + match.group(2), state, expand)


def _operate(name: str, value: Value | None, rest: str, state: State, expand: Callable[[str], str]) -> Value:
    colon = rest[0] == ":" and rest[1:2] in ("-", "=", "?", "+")
    operator = rest[1] if colon else rest[0]
    if operator in "-=?+" and (colon or rest[0] != ":"):
        return _default(name, value, operator, colon, rest[2 if colon else 1 :], state, expand)
    if value is None:
        return UNSET
    if isinstance(value, tuple):
        if operator == ":" and re.fullmatch(r":\s*\d+", rest):
            return value[max(int(rest[1:]) - 1, 0) :] if name in "@*" else value[int(rest[1:]) :]
        return tuple(_change(item, operator, rest, expand) for item in value)
    return _change(value, operator, rest, expand)


def _default(
    name: str, value: Value | None, operator: str, colon: bool, operand: str, state: State, expand: Callable[[str], str]
) -> Value:
    text = " ".join(value) if isinstance(value, tuple) else value
    missing = text is None or (colon and not strip_nothing(text))
    if operator == "+":
        return "" if missing else expand(operand)
    if not missing:
        return value if value is not None else ""
    if operator == "?":
        raise Exits
    chosen = expand(operand)
    if operator == "=":
        state.set(name, chosen)
    return chosen


def _change(value: str, operator: str, rest: str, expand: Callable[[str], str]) -> str:
    if not strip_nothing(value):
        return value
    if ANY_MARK.search(value):
        return HOLE
    match operator:
        case "#" | "%":
            twice = rest[1:2] == operator
            return _trim(value, operator, twice, expand(rest[2 if twice else 1 :]))
        case "/":
            return _replace(value, rest[1:], expand)
        case "^" | ",":
            change = str.upper if operator == "^" else str.lower
            if rest[1:] not in ("", operator):
                return HOLE
            return change(value) if rest[1:] else change(value[:1]) + value[1:]
        case ":":
            span = re.fullmatch(r":\s*(-?\d+)(?::(-?\d+))?", rest)
            if span is None:
                return HOLE
            start = int(span.group(1))
            tail = value[start:] if start >= 0 else value[max(len(value) + start, 0) :]
            return tail if span.group(2) is None else tail[: int(span.group(2))]
        case _:
            return HOLE


def pattern_regex(pattern: str) -> str | None:
    """A regular expression for a shell pattern whose wildcards are marks or plain; None when part of it is unknown."""
    if HOLE in pattern or GAP in pattern:
        return None
    plain = strip_nothing(pattern).replace(STAR, "*").replace(ONE, "?").replace(OPEN, "[").replace(CLOSE, "]").replace(DEEP, "**")
    return glob_regex(plain)


def glob_regex(pattern: str) -> str:
    """A regular expression whose full match is what the shell pattern matches, `/` being an ordinary character.

    Each part between two stars is taken where it is first met (atomic groups), so that no pattern takes exponential time.
    """
    parts = [""]
    at = 0
    out: list[str] = []
    while at < len(pattern):
        char = pattern[at]
        at += 1
        if char == "*":
            parts[-1] = "".join(out)
            out = []
            parts.append("")
        elif char == "?":
            out.append(".")
        elif char == "\\" and at < len(pattern):
            out.append(re.escape(pattern[at]))
            at += 1
        elif char == "[" and (end := pattern.find("]", at + 1 + (pattern[at : at + 1] in ("!", "^")))) > 0:
            inner = pattern[at:end].replace("\\", "\\\\").replace("[", "\\[")
            out.append("[" + ("^" + inner[1:] if inner[:1] in ("!", "^") else inner) + "]")
            at = end + 1
        else:
            out.append(re.escape(char))
    parts[-1] = "".join(out)
    if len(parts) == 1:
        return "(?s:" + parts[0] + ")"
    middle = "".join(f"(?>.*?{part})" for part in parts[1:-1] if part)
    return f"(?s:{parts[0]}{middle}.*{parts[-1]})"


def _trim(value: str, side: str, longest: bool, pattern: str) -> str:
    source = pattern_regex(pattern)
    if source is None or len(value) > 512:
        return HOLE
    try:
        found = re.compile(source)
    except re.error:
        return HOLE
    cuts = range(len(value) + 1)
    if side == "#":
        order = reversed(cuts) if longest else cuts
        return next((value[cut:] for cut in order if found.fullmatch(value, 0, cut)), value)
    order = cuts if longest else reversed(cuts)
    return next((value[:cut] for cut in order if found.fullmatch(value, cut)), value)


def _replace(value: str, rest: str, expand: Callable[[str], str]) -> str:
    every = rest.startswith("/")
    pattern, _, new = (rest[1:] if every else rest).partition("/")
    where = pattern[:1] if pattern[:1] in ("#", "%") and not every else ""
    wanted = expand(pattern[len(where) :])
    # A search with stars would have to find the longest match; nobody needs that to name a path.
    source = None if STAR in wanted or "*" in wanted else pattern_regex(wanted)
    replacement = expand(new)
    if source is None or len(value) > 2_000:
        return HOLE
    anchored = {"#": r"\A" + source, "%": source + r"\Z"}.get(where, source)
    try:
        return re.sub(anchored, lambda _: replacement, value, count=0 if every else 1)
    except re.error:
        return HOLE
