"""Simple commands: their words, assignments and redirections, evaluated in the order that a shell does."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from agent_harness.guards.expand import Expander
from agent_harness.guards.machine import Invocation, Machine, Redirection, Unanalysed
from agent_harness.guards.marks import HOLE, STORED
from agent_harness.guards.parse import Script
from agent_harness.guards.redirects import finish_output, input_of
from agent_harness.guards.state import State

if TYPE_CHECKING:
    from tree_sitter import Node

_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(\[[^\]]*\])?(\+?=)", re.DOTALL)
_GAP = re.compile(rb"(?:[ \t]|\\\n)*")
_DECLARES = frozenset(("export", "declare", "typeset", "readonly", "local"))


def spans(script: Script, nodes: Iterable[Node]) -> list[tuple[int, int]]:
    """The byte ranges of words: nodes that touch each other, or have only a line continuation between them, are one word."""
    found: list[tuple[int, int]] = []
    for node in nodes:
        start, end = node.start_byte, node.end_byte
        if start == end:
            continue
        if found and (found[-1][1] == start or not script.source[found[-1][1] : start].replace(b"\\\n", b"")):
            found[-1] = (found[-1][0], end)
        else:
            found.append((start, end))
    return found


class Simple:
    """Evaluates simple commands and hands them to the machine.

    Args:
        machine: runs commands.
        run: runs any other statement, for groups with redirections.
    """

    def __init__(self, machine: Machine, run: Callable[[Script, Node, State], list[State]]) -> None:
        self._machine = machine
        self._run = run

    def command(self, script: Script, node: Node | None, state: State, redirects: Sequence[Node] = ()) -> list[State]:
        """Run a command, or only redirections when `node` is None."""
        env: dict[str, str] = {}
        parts: list[Node] = []
        found: list[Node] = []
        children = self._own_line(script, [] if node is None else node.children, state)
        for child in children:
            if (child.type == "variable_assignment" and not parts) or child.type == "file_redirect":
                found.append(child)
            elif child.type != "comment":
                parts.append(child)
        _check_gaps(script, [*children, *redirects])
        expander = Expander(self._machine, state)
        words = [script.text(start, end) for start, end in spans(script, parts)]
        files = [each for each in found if each.type == "file_redirect"]
        sources, extra = _redirections(script, [*files, *redirects])
        argv: list[str] = []
        for word in [*words, *extra]:
            argv += expander.fields(word)
        # A prefix assignment takes no part in the expansion of its own command.
        for each in found:
            if each.type == "variable_assignment":
                self.assign(script, each, state, env)
        if not words and not extra:
            for name, value in env.items():
                state.set(name, value)
        targets = [Redirection(fd, operator, self._target(expander, operator, text)) for fd, operator, text in sources]
        return self._perform(argv, state, env, targets)

    def _own_line(self, script: Script, children: list[Node], state: State) -> list[Node]:
        """The parts without assignments of the line before, which the grammar takes for prefixes of this command."""
        rest = children
        for number, (left, right) in enumerate(itertools.pairwise(children), 1):
            if left.type != "variable_assignment":
                break
            if b"\n" in script.source[left.end_byte : right.start_byte].replace(b"\\\n", b""):
                rest = children[number:]
        for each in children[: len(children) - len(rest)]:
            self.assignments(script, each, state)
        return rest

    def grouped(self, script: Script, body: Node, redirects: Sequence[Node], state: State) -> list[State]:
        """Run a compound statement with redirections."""
        sources, extra = _redirections(script, redirects)
        if extra:
            raise Unanalysed(f"words follow a redirection of a group: {extra[0]!r}")
        expander = Expander(self._machine, state)
        targets = [Redirection(fd, operator, self._target(expander, operator, text)) for fd, operator, text in sources]
        return self._around(targets, state, None, lambda: self._run(script, body, state))

    def _perform(self, argv: list[str], state: State, env: dict[str, str], redirects: list[Redirection]) -> list[State]:
        inv = Invocation(argv, state, env, redirects)
        if argv:
            return self._around(redirects, state, inv, lambda: self._machine.dispatch(inv))
        return self._around(redirects, state, inv, lambda: [state.done(True)])

    def _around(
        self,
        redirects: list[Redirection],
        state: State,
        inv: Invocation | None,
        body: Callable[[], list[State]],
    ) -> list[State]:
        """Run `body` with input and output redirected, then restore both."""
        outer_in, outer_out = state.stdin, state.out
        given = input_of(self._machine, redirects, state)
        if given is not None:
            state.stdin = given
        state.out = ""
        results = body()
        for result in results:
            text = finish_output(self._machine, redirects, inv, result)
            result.out = outer_out
            result.say(text)
            if given is not None:
                result.stdin = outer_in
        return results

    def _target(self, expander: Expander, operator: str, text: str) -> str:
        if text.startswith(STORED):
            return text
        fields = expander.fields(text)
        return fields[0] if len(fields) == 1 else HOLE

    def assignments(self, script: Script, node: Node, state: State) -> list[State]:
        """Assignments without a command."""
        nodes = [node] if node.type == "variable_assignment" else node.named_children
        before = state.out
        for each in nodes:
            env: dict[str, str] = {}
            self.assign(script, each, state, env)
            for name, value in env.items():
                state.set(name, value)
        state.out = before
        return [state.done(None if "$(" in script.text(node.start_byte, node.end_byte) else True)]

    def assign(self, script: Script, node: Node, state: State, env: dict[str, str]) -> None:
        """Evaluate one assignment: a text goes to `env`, an array into the state."""
        text = script.text(node.start_byte, node.end_byte)
        expander = Expander(self._machine, state)
        match = _ASSIGNMENT.match(text)
        if match is None:
            expander.single(text)
            return
        name, subscript, operator = match.groups()
        array = next((child for child in node.children if child.type == "array"), None)
        if array is not None:
            items: list[str] = []
            for start, end in spans(script, (child for child in array.children if child.type not in ("(", ")", "comment"))):
                items += expander.fields(script.text(start, end))
            old = state.variables.get(name, ()) if operator == "+=" else ()
            state.set(name, (*(old if isinstance(old, tuple) else (old,)), *items))
            return
        value = expander.single(text[match.end() :], assigned=True)
        if subscript:
            expander.heredoc(subscript)
            state.set(name, HOLE)
        elif operator == "+=":
            env[name] = (env.get(name) or state.get(name) or "") + value
        else:
            env[name] = value

    def declaration(self, script: Script, node: Node, state: State) -> list[State]:
        """`export`, `local`, `declare`, `readonly`, `unset`: what they say about variables."""
        keyword = node.children[0].type
        children = node.children[1:]
        files = [child for child in children if child.type == "file_redirect"]
        for child in children:
            if child.type == "variable_assignment":
                env: dict[str, str] = {}
                self.assign(script, child, state, env)
                for name, value in env.items():
                    state.set(name, value)
                if keyword == "export" or "-x" in _options(script, children):
                    match = _ASSIGNMENT.match(script.text(child.start_byte, child.end_byte))
                    state.exported |= {match.group(1)} if match else set()
        others = spans(
            script, (child for child in children if child.type not in ("variable_assignment", "comment") and child not in files)
        )
        words: list[str] = []
        for start, end in others:
            words += Expander(self._machine, state).fields(script.text(start, end))
        inv = Invocation([keyword if keyword in _DECLARES else "unset", *words], state)
        return self._machine.dispatch(inv)


def _check_gaps(script: Script, nodes: Sequence[Node]) -> None:
    """A second look at the grammar's work: nothing but blanks may stand between the parts of one command."""
    for left, right in itertools.pairwise(nodes):
        if left.end_byte < right.start_byte and not _GAP.fullmatch(script.source, left.end_byte, right.start_byte):
            near = script.text(left.end_byte, right.start_byte)[:20]
            raise Unanalysed(f"the words of one command are parted by {near!r}")


def _options(script: Script, nodes: Iterable[Node]) -> list[str]:
    return [script.text(node.start_byte, node.end_byte) for node in nodes if node.type == "word"]


def _redirections(script: Script, nodes: Iterable[Node]) -> tuple[list[tuple[str, str, str]], list[str]]:
    """(descriptor, operator, source of the target) of each, and the words which the grammar took for further targets."""
    found: list[tuple[str, str, str]] = []
    extra: list[str] = []
    for node in nodes:
        descriptor, operator = "", ""
        rest: list[Node] = []
        for child in node.children:
            if child.type == "file_descriptor":
                descriptor = script.text(child.start_byte, child.end_byte)
            elif not child.is_named and not operator:
                operator = child.type
            else:
                rest.append(child)
        words = [script.text(start, end) for start, end in spans(script, rest)]
        found.append((descriptor, operator, words[0] if words else ""))
        extra += words[1:]
    return found, extra
