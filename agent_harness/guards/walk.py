"""Runs the statements of a script on states: lists, pipelines, conditions, loops, functions, redirections."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from agent_harness.guards.expand import Expander
from agent_harness.guards.machine import Machine, Unanalysed
from agent_harness.guards.marks import GAP, GONE, HOLE
from agent_harness.guards.parameters import Exits
from agent_harness.guards.parse import Body, Script
from agent_harness.guards.simple import Simple, spans
from agent_harness.guards.state import State, blur, distinct

if TYPE_CHECKING:
    from tree_sitter import Node

_WORDLESS = frozenset(("&", ";", ";;", "\n", "comment", "heredoc_redirect"))
_ROUNDS = 3  # how often a loop's body is run before what still changes is taken for unknown
_LINES = 24  # how many lines of known input a `while read` loop takes one by one
Runner = Callable[[Script, "Node", State], list[State]]


class Walker:
    """Runs trees; commands go to `machine.dispatch`."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        simple = self._simple = Simple(machine, self.run)
        self._kinds: dict[str, Runner] = {
            "program": self._children,
            "compound_statement": self._compound,
            "do_group": self._children,
            "list": self._list,
            "pipeline": self._pipeline,
            "command": simple.command,
            "redirected_statement": self._redirected,
            "variable_assignment": simple.assignments,
            "variable_assignments": simple.assignments,
            "declaration_command": simple.declaration,
            "unset_command": simple.declaration,
            "subshell": self._subshell,
            "negated_command": self._negated,
            "if_statement": self._if,
            "while_statement": self._while,
            "for_statement": self._for,
            "c_style_for_statement": self._for_numbers,
            "case_statement": self._case,
            "function_definition": self._function,
            "test_command": self._test,
        }

    def run(self, script: Script, node: Node, state: State) -> list[State]:
        """Every state in which the shell may be after that node."""
        self._machine.tick(2)
        runner = self._kinds.get(node.type)
        if runner is None:
            if node.type in _WORDLESS or not node.is_named:
                return [state]
            raise Unanalysed(
                f"{node.type.replace('_', ' ')!r} is not understood here: {script.text(node.start_byte, node.end_byte)[:40]!r}"
            )
        try:
            return runner(script, node, state)
        except Exits:
            state.flow = "exit"
            return [state.done(False)]

    def sequence(self, script: Script, nodes: Sequence[Node], states: list[State]) -> list[State]:
        """One statement after the other; a state that has left is carried along."""
        for node in nodes:
            if not node.is_named or node.type == "comment":
                continue
            after: list[State] = []
            for state in states:
                if state.flow:
                    after.append(state)
                    continue
                following = node.next_sibling
                if following is not None and following.type == "&":
                    after += self._background(script, node, state)
                    continue
                results = self.run(script, node, state)
                if node.type in ("command", "redirected_statement", "pipeline", "subshell"):
                    for result in results:
                        if result.status is False and "errexit" in result.options and not result.flow:
                            result.flow = "exit"
                after += results
            states = distinct(after)
        return states

    def _children(self, script: Script, node: Node, state: State) -> list[State]:
        return self.sequence(script, node.named_children, [state])

    def _compound(self, script: Script, node: Node, state: State) -> list[State]:
        if node.children and node.children[0].type == "((":
            Expander(self._machine, state).heredoc(script.text(node.start_byte, node.end_byte))
            return [state.done(None)]
        return self._children(script, node, state)

    def _list(self, script: Script, node: Node, state: State, redirects: Sequence[Node] = ()) -> list[State]:
        # The grammar nests long chains to the left; they are taken one by one.
        links: list[tuple[str, Node]] = []
        first: Node = node
        while first.type == "list":
            operator = next((child.type for child in first.children if child.type in ("&&", "||")), "&&")
            links.append((operator, first.named_children[-1]))
            first = first.named_children[0]
        states = self.run(script, first, state)
        for number, (operator, right) in enumerate(reversed(links), 1):
            behind = redirects if number == len(links) else ()
            states = distinct(self._link(script, operator == "&&", right, behind, states))
        return states

    def _link(self, script: Script, wanted: bool, right: Node, redirects: Sequence[Node], states: list[State]) -> Iterator[State]:
        """`&& right` (wanted is True) or `|| right` behind a command that left `states`."""
        for state in states:
            if state.flow:
                yield state
                continue
            if state.status is not wanted:
                skipped = state.copy()
                skipped.status = not wanted
                yield skipped
            if state.status is not (not wanted):
                yield from self._with(script, right, redirects, state)

    def _pipeline(self, script: Script, node: Node, state: State, redirects: Sequence[Node] = ()) -> list[State]:
        parts = [child for child in node.named_children if child.type != "comment"]
        current, text = state, state.stdin
        for number, part in enumerate(parts):
            inner = current.copy()
            inner.stdin, inner.out, inner.traps = text, "", ()
            last = number == len(parts) - 1
            ends = self._with(script, part, redirects, inner) if last else self.run(script, part, inner)
            if last:
                return self._leave(current, ends)
            outs = {end.out for end in ends}
            text = outs.pop() if len(outs) == 1 else HOLE
            current = self._leave(current, ends, said=False)[0]
        return [state]

    def _redirected(self, script: Script, node: Node, state: State) -> list[State]:
        return self._with(script, node.child_by_field_name("body"), node.children_by_field_name("redirect"), state)

    def _with(self, script: Script, body: Node | None, redirects: Sequence[Node], state: State) -> list[State]:
        """Run a body with redirections; the grammar hangs those of a list's or pipeline's last command on the whole."""
        if body is not None and not redirects:
            return self.run(script, body, state)
        match None if body is None else body.type:
            case None | "command":
                return self._simple.command(script, body, state, redirects)
            case "list":
                assert body is not None
                return self._list(script, body, state, redirects)
            case "pipeline":
                assert body is not None
                return self._pipeline(script, body, state, redirects)
            case "negated_command":
                assert body is not None
                return self._negated(script, body, state, redirects)
            case _:
                assert body is not None
                return self._simple.grouped(script, body, redirects, state)

    def _leave(self, outer: State, ends: list[State], *, said: bool = True) -> list[State]:
        """The outer shell after a subshell that ended in `ends`."""
        results: list[State] = []
        for end in ends:
            for trap in end.traps:
                self._machine.run_code(trap, end.copy())
            after = outer.copy()
            after.adopt(end)
            if said:
                after.say(end.out)
            results.append(after.done(end.status))
        results = distinct(results)
        return results if said else distinct(results, 1)

    def _subshell(self, script: Script, node: Node, state: State) -> list[State]:
        inner = state.copy()
        inner.out, inner.traps = "", ()
        return self._leave(state, self.sequence(script, node.named_children, [inner]))

    def _background(self, script: Script, node: Node, state: State) -> list[State]:
        """`cmd &` runs in a subshell, and what it does may not be done yet when the next command runs."""
        inner = state.copy()
        inner.out, inner.traps, inner.stdin = "", (), ""
        ends = self._leave(state, self.run(script, node, inner))
        return distinct([state.done(True), *(end.done(True) for end in ends)])

    def _negated(self, script: Script, node: Node, state: State, redirects: Sequence[Node] = ()) -> list[State]:
        results = self._with(script, node.named_children[-1], redirects, state)
        for result in results:
            result.status = None if result.status is None else not result.status
        return results

    def _if(self, script: Script, node: Node, state: State) -> list[State]:
        parts: list[tuple[list[Node], list[Node]]] = []
        condition: list[Node] = []
        body: list[Node] = []
        otherwise: list[Node] = []
        seen_then = False
        for child in node.children:
            if child.type == "then":
                seen_then = True
            elif child.type == "elif_clause":
                cut = next(number for number, part in enumerate(child.children) if part.type == "then")
                parts.append((child.children[1:cut], child.children[cut + 1 :]))
            elif child.type == "else_clause":
                otherwise = child.children[1:]
            elif child.type != "if":
                (body if seen_then else condition).append(child)
        after: list[State] = []
        states = [state]
        for test, then in [(condition, body), *parts]:
            states = self.sequence(script, test, states)
            after += [each for each in states if each.flow]
            states = [each for each in states if not each.flow]
            for each in states:
                if each.status is not False:
                    after += self.sequence(script, then, [each.copy()])
            states = [each for each in states if each.status is not True]
            for each in states:
                each.status = True
        return distinct(after + self.sequence(script, otherwise, states))

    def _while(self, script: Script, node: Node, state: State) -> list[State]:
        until = node.children[0].type == "until"
        condition = node.children_by_field_name("condition")
        body = node.child_by_field_name("body")
        assert body is not None
        left: list[State] = []
        running, seen = [state], [state.copy()]
        for round_number in range(_LINES):
            running = self.sequence(script, condition, running)
            left += [each.copy() for each in running if each.flow or each.status is not (not until)]
            running = [each for each in running if not each.flow and each.status is not until]
            running = self._rounds(script, body, running, left)
            fresh = [each for each in running if all(each != other for other in seen)]
            if not fresh:
                return _loop_ends(left)
            seen += [each.copy() for each in fresh]
            counted = all(not each.stdin.startswith(HOLE) and each.stdin for each in fresh)
            if round_number >= _ROUNDS and not counted:
                break
            running = distinct(fresh)
        if not running:
            return _loop_ends(left)
        wide = _widen(running, state)
        for each in self.sequence(script, condition, [wide]):
            left.append(each.copy())
            self._rounds(script, body, [each], left)
        return _loop_ends(left)

    def _rounds(self, script: Script, body: Node, running: list[State], left: list[State]) -> list[State]:
        """Run a loop's body; states that leave the loop go to `left`."""
        going: list[State] = []
        for each in self.run(script, body, running[0]) if len(running) == 1 else self.sequence(script, [body], running):
            if each.flow in ("break", "exit", "return"):
                left.append(each)
            else:
                each.flow = ""
                going.append(each)
        return going

    def _for(self, script: Script, node: Node, state: State) -> list[State]:
        name_node, body = node.child_by_field_name("variable"), node.child_by_field_name("body")
        assert name_node is not None
        assert body is not None
        name = script.text(name_node.start_byte, name_node.end_byte)
        words = [script.text(start, end) for start, end in spans(script, node.children_by_field_name("value"))]
        values = list(state.args) if not any(child.type == "in" for child in node.children) else []
        for word in words:
            values += [value for value in Expander(self._machine, state).fields(word) if value.strip(GONE) or not value]
        left: list[State] = []
        running = [state]
        for value in values:
            self._machine.tick()
            for each in running:
                each.set(name, value.replace(GAP, HOLE))
            running = distinct(self._rounds(script, body, running, left))
            if not running:
                break
        return _loop_ends(left + running)

    def _for_numbers(self, script: Script, node: Node, state: State) -> list[State]:
        body = node.child_by_field_name("body")
        assert body is not None
        for child in node.named_children:
            if child.type == "variable_assignment":
                self._simple.assign(script, child, state, {})
        left = [state.copy()]
        states = [state]
        for _ in range(2):
            states = self._rounds(script, body, states, left)
            left += [each.copy() for each in states]
        return _loop_ends(left)

    def _case(self, script: Script, node: Node, state: State) -> list[State]:
        value = node.child_by_field_name("value")
        if value is not None:
            Expander(self._machine, state).single(script.text(value.start_byte, value.end_byte))
        after: list[State] = []
        catches_all = False
        for item in node.named_children:
            if item.type == "case_item":
                patterns = {child.id for child in item.children_by_field_name("value")}
                for pattern in item.children_by_field_name("value"):
                    text = script.text(pattern.start_byte, pattern.end_byte)
                    catches_all |= text == "*"
                    Expander(self._machine, state).operand(text)
                body = [child for child in item.named_children if child.id not in patterns]
                after += self.sequence(script, body, [state.copy()])
        if not catches_all:
            after.append(state.done(None))
        return distinct(after)

    def _function(self, script: Script, node: Node, state: State) -> list[State]:
        name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
        assert name is not None
        assert body is not None
        state.functions[script.text(name.start_byte, name.end_byte)] = Body(script, body)
        return [state.done(True)]

    def _test(self, script: Script, node: Node, state: State) -> list[State]:
        # What is compared has no effect, but its substitutions run.
        Expander(self._machine, state).heredoc(_unquote_single(script.text(node.start_byte, node.end_byte)))
        return [state.done(None)]


def _loop_ends(states: list[State]) -> list[State]:
    """After a loop nobody breaks or continues any more, and nobody knows how its last command ended."""
    for state in states:
        if state.flow in ("break", "continue"):
            state.flow = ""
        state.status = None
    return distinct(states)


def _widen(running: Sequence[State], start: State) -> State:
    """One state in which everything that the loop changes is unknown."""
    wide = running[0].copy()
    for each in [*running[1:], start]:
        blur(wide, each)
    return wide


def _unquote_single(text: str) -> str:
    """The text with single-quoted parts blanked: nothing in them runs."""
    return re.sub(r"'[^']*'", "''", text)
