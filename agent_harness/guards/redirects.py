"""What redirections give a command to read, and where its output goes."""

from __future__ import annotations

from collections.abc import Sequence

from agent_harness.guards.expand import Expander
from agent_harness.guards.machine import Invocation, Machine, Redirection, Unanalysed
from agent_harness.guards.marks import HOLE, STORED, unknown
from agent_harness.guards.rm import emptied
from agent_harness.guards.state import State
from agent_harness.guards.targets import absolute


def input_of(machine: Machine, redirects: Sequence[Redirection], state: State) -> str | None:
    """The text on standard input; None when no redirection changes it."""
    given = None
    for redirect in redirects:
        if redirect.operator not in ("<", "<>") or redirect.descriptor not in ("", "0"):
            continue
        if not redirect.target.startswith(STORED):
            given = machine.read_file(redirect.target, state)
            continue
        document = machine.document(redirect.target)
        if document is None:
            raise Unanalysed("a heredoc lost its text", "write the text with edit_file first")
        expander = Expander(machine, state)
        if document.word:
            given = expander.single(document.text) + "\n"
        else:
            given = document.text if document.quoted else expander.heredoc(document.text)
    return given


def finish_output(machine: Machine, redirects: Sequence[Redirection], inv: Invocation | None, state: State) -> str:
    """Send what the command printed where its redirections say; returns what is left for the shell's own output."""
    text = state.out
    for redirect in redirects:
        if ">" not in redirect.operator or redirect.operator in ("<>", "<&") or redirect.descriptor not in ("", "1", "&"):
            continue
        target = redirect.target
        if redirect.operator == ">&" and (target.isdigit() or target == "-"):
            continue
        path = absolute(target, state)
        if redirect.operator not in (">>", "&>>"):
            emptied(machine, inv, target, state)
        if path is None or unknown(path):
            text = ""
            continue
        old = state.files.get(path, HOLE) if redirect.operator in (">>", "&>>") else ""
        state.files[path] = old + text
        hook = "/.git/hooks/" in path or path.startswith(machine.world.worktree + "/.git/hooks/")
        if hook and not unknown(text):
            machine.run_code(text, state.child())
        text = ""
    return text
