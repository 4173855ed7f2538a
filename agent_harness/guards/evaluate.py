"""The machine: runs a shell line, or one argument list, on what is known of the world."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from agent_harness.guards.builtins import BUILTINS, opaque
from agent_harness.guards.containers import CONTAINERS
from agent_harness.guards.expand import Expander
from agent_harness.guards.find import FINDERS
from agent_harness.guards.gitrun import GIT
from agent_harness.guards.lexer import Heredoc
from agent_harness.guards.machine import Blocked, Finding, Handler, Invocation, Unanalysed
from agent_harness.guards.marks import ANY_MARK, DIGITS, GONE, HOLE, NOTHING, PATTERN, SAFE, STAR, TEST, literal, show, unknown
from agent_harness.guards.nested import INTERPRETER, NESTED, interpreter
from agent_harness.guards.options import name_set
from agent_harness.guards.parameters import pattern_regex
from agent_harness.guards.parse import Body, Script, parse
from agent_harness.guards.printing import PRINTERS, say_unknown
from agent_harness.guards.state import State, distinct
from agent_harness.guards.targets import absolute
from agent_harness.guards.walk import Walker
from agent_harness.guards.wrappers import WRAPPERS, run_external, suffix_command
from agent_harness.world import GitFacts, World

MAX_STEPS = 15_000
MAX_DEPTH = 24
_HANDLERS: dict[str, Handler] = {**PRINTERS, **BUILTINS, **WRAPPERS, **NESTED, **FINDERS, **CONTAINERS, **GIT}
# Programs that only take names and texts: what follows them is never a command of its own.
_TEXT_ONLY = name_set(
    "man info apropos whatis touch mkdir chmod chown stat file wc diff cmp cut tr paste column nl od xxd jq yq less more "
    "test npm yarn pnpm jj hg sl pip pip3 apt apt-get brew cargo go rustup rustc gcc cc cmake ninja pytest ruff mypy tsc eslint "
    "prettier systemctl service ps top df du free uname date id whoami hostname logger notify-send say glab code open rg "
    "ag ack codespell aspell helm kubectl terraform rm gpg ssh-add ssh-keygen curl wget"
)
Rule = Callable[["Evaluator", Invocation], None]


def _may_be_dangerous(pattern: str) -> bool:
    """Whether a wildcard in a command's place could match a program that this package judges."""
    source = pattern_regex(pattern.replace(DIGITS, STAR).replace(SAFE, STAR))
    try:
        return source is None or any(
            re.fullmatch(source, name) for name in ("rm", "git", "find", "unlink", "dd", *NESTED, *WRAPPERS)
        )
    except re.error:
        return True


class Evaluator:
    """Evaluates one call; see `Machine` for what its parts may ask of it.

    Args:
        world: where the call would run.
        dialect: `rm` or `push`, or empty to only list commands.
        rules: asked about every command before its effects are followed.
    """

    def __init__(self, world: World, dialect: str = "", rules: Sequence[Rule] = ()) -> None:
        self.world = world
        self.dialect = dialect
        self.undecidable = 0
        self._rules = rules
        self._walker = Walker(self)
        self._steps = 0
        self._depth = 0
        self._documents: dict[str, Heredoc] = {}
        self._scripts: dict[str, Script] = {}
        self._running: list[tuple[Body, tuple[str, ...]]] = []
        self._facts: GitFacts | None = None

    def start(self, uses_git: bool) -> State:
        """The state in which a call begins."""
        world = self.world
        variables = {name: ANY_MARK.sub("?", value) for name, value in world.env.items()}
        exported = frozenset(variables)
        variables.setdefault("HOME", world.home)
        branch = self.git().branch if uses_git else HOLE
        return State(world.cwd, dict(variables), exported, variables.get("OLDPWD"), branch=branch)

    def run_line(self, line: str) -> None:
        """Run a shell line to its end, traps included.

        Raises:
            Blocked: a rule refuses it.
            Unanalysed: it cannot be read.
        """
        if ANY_MARK.search(line) or "\0" in line:
            raise Unanalysed("it holds characters that no shell text needs")
        for state in self.run_code(line, self.start("git" in line.lower())):
            for trap in state.traps:
                end = state.copy()
                end.flow, end.traps = "", ()
                self.run_code(trap, end)

    def run_argv(self, argv: list[str]) -> None:
        """Run one argument list, no shell involved."""
        if any(ANY_MARK.search(word) for word in argv):
            raise Unanalysed("it holds characters that no argument needs")
        self.dispatch(Invocation(argv, self.start(uses_git=True)))

    def tick(self, steps: int = 1) -> None:
        """Count work."""
        self._steps += steps
        if self._steps > MAX_STEPS:
            raise Unanalysed("it takes more steps to analyse than allowed")

    def block(self, finding: Finding) -> None:
        """Refuse, or only take note."""
        if self.dialect:
            raise Blocked(finding)
        self.undecidable += 1

    def git(self) -> GitFacts:
        """The repository's state, asked for once."""
        if self._facts is None:
            self._facts = self.world.git()
        return self._facts

    def run_code(self, code: str, state: State) -> list[State]:
        """Run shell text in the shell of that state."""
        script = self._scripts.get(code)
        if script is None:
            script = self._scripts[code] = parse(code, len(self._documents))
            self._documents |= script.heredocs
        self.tick(1 + len(code) // 200)
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise Unanalysed(f"it is nested deeper than {MAX_DEPTH} levels")
        try:
            return self._walker.run(script, script.root, state)
        finally:
            self._depth -= 1

    def run_child(self, code: str, inv: Invocation, args: Sequence[str] = (), arg0: str = "sh") -> list[State]:
        """Run shell text in a new shell process."""
        inner = inv.state.child()
        for name, value in inv.env.items():
            inner.variables[name] = value
        inner.exported |= set(inv.env)
        inner.args, inner.arg0 = tuple(args), arg0
        results: list[State] = []
        for end in self.run_code(code, inner):
            for trap in end.traps:
                last = end.copy()
                last.flow, last.traps = "", ()
                self.run_code(trap, last)
            outer = inv.state.copy()
            outer.adopt(end)
            outer.say(end.out)
            results.append(outer.done(end.status if end.status is not False else None))
        return distinct(results)

    def capture(self, code: str, state: State) -> str:
        """What shell text prints, without its last line breaks."""
        self.tick(2)
        if match := re.fullmatch(r"\s*<\s*([^\s;&|<>]+)\s*", code):
            return self.read_file(Expander(self, state).single(match.group(1)), state).rstrip("\n")
        inner = state.copy()
        inner.out, inner.traps = "", ()
        ends = self.run_code(code, inner)
        for end in ends:
            for trap in end.traps:
                self.run_code(trap, end.copy())
        if len(ends) == 1:
            state.adopt(ends[0])
        outs = {end.out.rstrip("\n") for end in ends}
        return outs.pop() if len(outs) == 1 else HOLE

    def document(self, name: str) -> Heredoc | None:
        """The heredoc or here-string behind a stand-in."""
        return self._documents.get(name)

    def read_file(self, path: str, state: State) -> str:
        """The text of a file as far as this line wrote it."""
        if path in ("/dev/stdin", "/proc/self/fd/0", "/dev/fd/0"):
            return state.stdin
        if path == "/dev/null":
            return ""
        place = absolute(path, state)
        return HOLE if place is None else state.files.get(place, HOLE)

    def fields(self, text: str, state: State) -> list[str]:
        """The words of one source word."""
        return Expander(self, state).fields(text)

    def dispatch(self, inv: Invocation) -> list[State]:
        """Run one command: function, alias, or program."""
        self.tick(3)
        while inv.argv and inv.argv[0] and not inv.argv[0].strip(GONE):
            inv.argv = inv.argv[1:]
            if not inv.argv:
                self.block(opaque("", "a variable that is not set is run as a command"))
                return [inv.state.done(None)]
        name = inv.argv[0]
        if self._nameless(inv, name):
            inv.state.say(HOLE)
            return [inv.state.done(None)]
        inv.argv[0] = name = NOTHING.sub("", name)
        state = inv.state
        if name in state.functions:
            return self._call(inv, state.functions[name])
        if name in state.aliases:
            return self._alias(inv, state.aliases[name])
        inv.argv[0] = self._renamed(inv, name)
        for rule in self._rules:
            rule(self, inv)
        handler = _HANDLERS.get(inv.name)
        if handler is None and inv.name.startswith("git-"):
            handler = _HANDLERS["git"]
        if handler is None and INTERPRETER.fullmatch(inv.name):
            handler = interpreter
        if handler is not None:
            return handler(self, inv) or [state]
        if inv.name not in _TEXT_ONLY and (command := suffix_command(inv)):
            return run_external(self, inv, command)
        return say_unknown(self, inv)

    def _nameless(self, inv: Invocation, name: str) -> bool:
        """Whether the command's name is not known; refused, unless what follows the last slash is plain."""
        last = name.rpartition("/")[2]
        if literal(name) or name == TEST or ("/" in name and last and literal(last) and not PATTERN.search(name)):
            return False
        if PATTERN.search(name) and not unknown(name) and last and not _may_be_dangerous(last):
            return False
        if not NOTHING.sub("", name) or unknown(name) or PATTERN.search(name):
            reason = "which program it runs cannot be known before it runs"
            self.block(opaque(show(name) or inv.argv[0], reason))
            return True
        return False

    def _renamed(self, inv: Invocation, name: str) -> str:
        """The program behind a name that this very line gave to another one."""
        programs = inv.state.programs
        if not programs:
            return name
        if "/" in name:
            return programs.get(absolute(name, inv.state) or "", name)
        if name in programs:
            return programs[name]
        for folder in (inv.getenv("PATH") or "").split(":"):
            place = absolute(folder or ".", inv.state)
            if place and f"{place}/{name}" in programs:
                return programs[f"{place}/{name}"]
        return name

    def _call(self, inv: Invocation, body: Body) -> list[State]:
        state = inv.state
        key = (body, tuple(inv.args))
        if key in self._running:
            return [state.done(None)]
        if len(self._running) >= MAX_DEPTH:
            raise Unanalysed("its functions call each other without end")
        before = state.args
        state.args = tuple(word for word in inv.args if word == "" or word.strip(GONE))
        for name, value in inv.env.items():
            state.set(name, value)
        self._running.append(key)
        try:
            results = self._walker.run(body.script, body.node, state)
        finally:
            self._running.pop()
        for result in results:
            result.args = before
            if result.flow == "return":
                result.flow = ""
        return results

    def _alias(self, inv: Invocation, text: str) -> list[State]:
        state = inv.state
        name, saved = inv.argv[0], state.aliases
        state.aliases = {other: value for other, value in saved.items() if other != name}
        results = self.run_code(text + ' "$@"' if inv.args else text, self._with_args(state, inv.args))
        for result in results:
            result.aliases = {**saved, **result.aliases}
        return results

    def _with_args(self, state: State, args: Sequence[str]) -> State:
        state.args = tuple(args)
        return state
