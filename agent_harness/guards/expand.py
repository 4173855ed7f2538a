"""Words to what a command would be given: quotes, tilde, parameters, substitutions, splitting, active wildcards."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from agent_harness.guards.braces import expand_braces
from agent_harness.guards.lexer import Scanner
from agent_harness.guards.machine import Machine, Unanalysed
from agent_harness.guards.marks import CLOSE, DIGITS, GAP, GONE, HOLE, ONE, OPEN, STAR, STORED, UNSET
from agent_harness.guards.parameters import evaluate, lookup
from agent_harness.guards.state import State, Value

_PLAIN = re.compile(r"(?:[^\\'\"$`*?\[\]<>()!@+]|[!@+](?!\())+")
_WILD = re.compile(r"(?:[*\[\]]|[*?](?!\())+")
_TILDE = re.compile(r"~([A-Za-z_][\w.-]*|[+-]|)(?=/|:|$)")
_SPECIAL = re.compile(r"\$([A-Za-z_]\w*|[0-9@*#?$!_-])")
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{1,2}|[0-7]{1,3}|u[0-9a-fA-F]{1,4}|U[0-9a-fA-F]{1,8}|c.|.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v", "e": "\x1b", "E": "\x1b"}
_ACTIVE = str.maketrans({"*": STAR, "?": ONE, "[": OPEN, "]": CLOSE})
_EXTENDED = re.compile(r"[?*+@!]\(")


@dataclass(slots=True)
class _Fields:
    """Words under construction."""

    done: list[str] = field(default_factory=list[str])
    now: str | None = None

    def add(self, text: str) -> None:
        self.now = text if self.now is None else self.now + text

    def end(self) -> None:
        if self.now is not None:
            self.done.append(self.now)
            self.now = None


def split_value(value: str, separators: str) -> list[str]:
    """The words of an unquoted value; an empty first or last one says that the value begins or ends with a separator."""
    if not separators:
        return [value]
    return re.split("[" + re.escape(separators) + "]+", value)


def decode_ansi(text: str) -> str:
    """The text of `$'...'`."""

    def decode(match: re.Match[str]) -> str:
        body = match.group(1)
        if body[0] == "x":
            return chr(int(body[1:], 16)) if len(body) > 1 else "\\x"
        if body[0] in "01234567":
            return chr(int(body, 8) & 0xFF)
        if body[0] in "uU" and len(body) > 1:
            number = int(body[1:], 16)
            return chr(number) if number < 0x110000 and not 0xD800 <= number < 0xE100 else HOLE
        if body[0] == "c" and len(body) == 2:
            return chr(ord(body[1]) & 0x1F)
        return _ESCAPES.get(body, body if body in "\\'\"?" else "\\" + body)

    decoded = _ESCAPE.sub(decode, text)
    return decoded.split("\0", 1)[0]


class Expander:
    """Evaluates words on one state; assignments by `${X:=y}` and what substitutions leave behind go into that state."""

    def __init__(self, machine: Machine, state: State) -> None:
        self._machine = machine
        self._state = state

    def fields(self, word: str) -> list[str]:
        """The words that one source word becomes."""
        self._machine.tick(1 + len(word) // 256)
        found: list[str] = []
        for part in expand_braces(word):
            fields = _Fields()
            self._scan(part, fields, split=True)
            fields.end()
            found += fields.done
        return found

    def single(self, word: str, *, assigned: bool = False) -> str:
        """One text, as in assignments and redirections: not split, wildcards not active."""
        self._machine.tick(1 + len(word) // 256)
        fields = _Fields()
        self._scan(word, fields, split=False, assigned=assigned)
        return fields.now or ""

    def operand(self, word: str) -> str:
        """One text in which unquoted wildcards are active: the operand of an operator, a pattern."""
        fields = _Fields()
        self._scan(word, fields, split=False, active=True)
        return fields.now or ""

    def heredoc(self, body: str) -> str:
        """A heredoc's body with its expansions, quotes being ordinary characters."""
        fields = _Fields()
        fields.add("")
        self._double(body, 0, len(body), fields, heredoc=True)
        return fields.now or ""

    def _scan(self, word: str, fields: _Fields, *, split: bool, assigned: bool = False, active: bool = False) -> None:
        at = self._tilde(word, 0, fields)
        scanner = Scanner(word)
        while at < len(word):
            if match := _PLAIN.match(word, at):
                text = match.group()
                if "\n" in text:
                    raise Unanalysed("a line break stands inside a word", "quote it, or write one command a line")
                if STORED in text:
                    raise Unanalysed("its heredocs can be read in two ways", "write the text with edit_file first")
                fields.add(text)
                at = match.end()
                if assigned and text.endswith(":"):
                    at = self._tilde(word, at, fields)
                continue
            char = word[at]
            if char == "\\":
                fields.add("" if word[at + 1 : at + 2] == "\n" else word[at + 1 : at + 2])
                at += 2
            elif char == "'":
                end = scanner.construct(at)
                fields.add(word[at + 1 : end - 1])
                at = end
            elif char == '"' or word.startswith('$"', at):
                start = at + 1 + (char == "$")
                end = scanner.double(start)
                self._quoted(word, start, end - 1, fields)
                at = end
            elif char in "$`":
                at = self._expansion(word, at, fields, scanner, split=split)
            else:
                at = self._other(word, at, fields, scanner, active=split or active)

    def _other(self, word: str, at: int, fields: _Fields, scanner: Scanner, *, active: bool) -> int:
        char = word[at]
        if char in "<>" and word[at + 1 : at + 2] == "(":
            end = scanner.code(at + 2, ")")
            fields.add(self._process(char, word[at + 2 : end - 1]))
            return end
        if _EXTENDED.match(word, at):
            fields.add(STAR)
            return scanner.code(at + 2, ")")
        wild = _WILD.match(word, at)
        text = wild.group() if wild else char
        fields.add(text.translate(_ACTIVE) if active else text)
        return at + len(text)

    def _process(self, direction: str, code: str) -> str:
        """A process substitution: the name of a file that holds what the code prints."""
        state = self._state
        name = f"/dev/fd/{len(state.files) + 63}"
        if direction == "<":
            state.files[name] = self._machine.capture(code, state)
        else:
            inner = state.child()
            inner.variables, inner.stdin = dict(state.variables), HOLE
            self._machine.run_code(code, inner)
        return name

    def _tilde(self, word: str, at: int, fields: _Fields) -> int:
        match = _TILDE.match(word, at)
        if match is None:
            return at
        state, name = self._state, match.group(1)
        if name == "":
            home = state.get("HOME")
        elif name == "+":
            home = state.cwd
        elif name == "-":
            home = state.oldcwd
        else:
            known = self._machine.world.home
            home = known if known.rsplit("/", 1)[-1] == name else ("/root" if name == "root" else f"/home/{name}")
        fields.add(home if home is not None else self._machine.world.home if name == "" else HOLE)
        return match.end()

    def _quoted(self, word: str, at: int, end: int, fields: _Fields) -> None:
        if word[at:end] in ("$@", "${@}"):
            self._several(self._state.args, fields)
            return
        fields.add("")
        self._double(word, at, end, fields)

    def _several(self, items: tuple[str, ...], fields: _Fields) -> None:
        """`"$@"`: every item is a word of its own; the first and last grow together with their neighbours."""
        for number, item in enumerate(items):
            if number:
                fields.end()
            fields.add(item)

    def _double(self, word: str, at: int, end: int, fields: _Fields, *, heredoc: bool = False) -> None:
        text = word[at:end]
        scanner = Scanner(text)
        at = 0
        stop = re.compile(r"[\\$`]")
        while match := stop.search(text, at):
            fields.add(text[at : match.start()])
            at = match.start()
            if text[at] == "\\":
                follow = text[at + 1 : at + 2]
                if follow == "\n":
                    pass
                elif follow in ("$", "`", "\\") or (follow == '"' and not heredoc):
                    fields.add(follow)
                else:
                    fields.add("\\" + follow)
                at += 2
            elif text.startswith("$'", at) or text.startswith('$"', at):
                fields.add("$")
                at += 1
            else:
                at = self._expansion(text, at, fields, scanner, split=False, quoted=True)
        fields.add(text[at:])

    def _expansion(self, text: str, at: int, fields: _Fields, scanner: Scanner, *, split: bool, quoted: bool = False) -> int:
        """Add what the expansion at `at` gives; returns the index behind it."""
        self._machine.tick()
        if text[at] == "`":
            end = scanner.construct(at)
            code = re.sub(r"\\([$`\\])" if not quoted else r"\\([$`\\\"])", r"\1", text[at + 1 : end - 1])
            value: Value = self._machine.capture(code, self._state)
        elif text.startswith("$((", at) or text.startswith("$[", at):
            end = scanner.dollar(at) if text.startswith("$((", at) else text.find("]", at) + 1 or len(text)
            arithmetic = text[end - 2 : end] == "))" or text[at + 1] == "["
            value = self._number(text[at:end]) if arithmetic else self._machine.capture(text[at + 2 : end - 1], self._state)
        elif text.startswith("$(", at):
            end = scanner.dollar(at)
            value = self._machine.capture(text[at + 2 : end - 1], self._state)
        elif text.startswith("${", at):
            end = scanner.dollar(at)
            value = evaluate(text[at + 2 : end - 1], self._state, self.operand)
        elif text.startswith("$'", at):
            end = scanner.dollar(at)
            fields.add(decode_ansi(text[at + 2 : end - 1]))
            return end
        elif match := _SPECIAL.match(text, at):
            end = match.end()
            found = lookup(match.group(1), self._state)
            value = UNSET if found is None else found
        else:
            fields.add("$")
            return at + 1
        self._put(value, fields, split=split, quoted=quoted)
        return end

    def _number(self, text: str) -> str:
        """Arithmetic: its substitutions run, its value is some number."""
        inner = text[3:-2] if text.startswith("$((") else text[2:-1]
        if "$(" in inner or "`" in inner:
            self.heredoc(inner)
        return str(int(inner)) if re.fullmatch(r"\s*\d{1,9}\s*", inner) else DIGITS

    def _put(self, value: Value, fields: _Fields, *, split: bool, quoted: bool) -> None:
        if isinstance(value, tuple):
            if quoted or not split:
                self._several(value, fields) if quoted else fields.add(" ".join(value))
                return
            value = " ".join(value)
            if not value:
                return
        if quoted or not split:
            fields.add(value)
            return
        if not value or value == UNSET:
            fields.add(GONE) if value else None
            return
        separators = self._state.get("IFS")
        separators = " \t\n" if separators is None else separators
        active = value.replace(HOLE, GAP).translate(_ACTIVE)
        for number, part in enumerate(split_value(active, separators)):
            if number:
                fields.end()
            if part:
                fields.add(part)
