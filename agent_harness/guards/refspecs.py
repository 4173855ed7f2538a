"""From a refspec to the branch that it would move, or the reason why nobody can say."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from agent_harness.guards.gitcall import GitCall
from agent_harness.guards.machine import Machine
from agent_harness.guards.marks import HOLE, vague

ALWAYS_PROTECTED = ("main", "master")


@dataclass(frozen=True, slots=True)
class Destination:
    """Where a refspec leads.

    Attributes:
        ref: the full ref or short name; empty when unknown.
        problem: why it is unknown or too wide; empty when `ref` counts.
    """

    ref: str
    problem: str = ""


def protected_names(machine: Machine) -> tuple[str, ...]:
    """The branches that only a pull request may change."""
    return tuple(dict.fromkeys((*ALWAYS_PROTECTED, machine.git().default_branch)))


def protected(machine: Machine, ref: str) -> str | None:
    """The protected branch that a destination is; case does not matter, because some servers ignore it."""
    name = ref
    for prefix in ("refs/heads/", "heads/"):
        if name.startswith(prefix):
            name = name[len(prefix) :]
            break
    else:
        if name.startswith("refs/"):
            return None
    if name in ("HEAD", "@"):
        return machine.git().default_branch
    return next((each for each in protected_names(machine) if each.casefold() == name.casefold()), None)


def destinations(machine: Machine, call: GitCall, remote: str, refspec: str) -> list[Destination]:
    """Every ref that one refspec of a push may move on the remote."""
    if vague(refspec):
        return [Destination("", "what it pushes to cannot be known before it runs")]
    spec = refspec.removeprefix("+")
    if spec.startswith("^"):
        return []
    source, colon, target = spec.partition(":")
    if colon:
        if not source and not target:
            return [Destination("", "it pushes every branch that both sides have")]
        if not target:
            return [Destination("", "its destination is empty")]
        return _named(machine, source, target)
    return _without_colon(machine, call, remote, source)


def _named(machine: Machine, source: str, target: str) -> list[Destination]:
    _ = source
    if "*" in target:
        pattern = re.compile(re.escape(target if target.startswith("refs/") else "refs/heads/" + target).replace(r"\*", ".*"))
        for name in protected_names(machine):
            if pattern.fullmatch("refs/heads/" + name):
                return [Destination("", f"the wildcard matches {name!r}")]
        return []
    return [Destination(target)]


def _without_colon(machine: Machine, call: GitCall, remote: str, source: str) -> list[Destination]:
    if "*" in source:
        return _named(machine, source, source)
    if source in ("HEAD", "@"):
        branch = call.state.branch if call.ours else HOLE
        if branch is None:
            return [Destination("", "HEAD is on no branch")]
        if vague(branch):
            return [Destination("", "which branch is checked out then cannot be known before it runs")]
        return [Destination(_through_links(machine, call, branch))]
    if not call.ours:
        # The name itself is the destination unless the other repository's configuration remaps it.
        if source.startswith("refs/tags/"):
            return [Destination(source)]
        return (
            [Destination(source)]
            if protected(machine, source)
            else [Destination("", "another repository's configuration may remap it")]
        )
    name = source.removeprefix("refs/heads/").removeprefix("heads/")
    found = [
        Destination(source),
        Destination(_through_links(machine, call, name) if not source.startswith("refs/tags/") else source),
    ]
    return found + _remapped(machine, call, remote, name)


def _through_links(machine: Machine, call: GitCall, branch: str) -> str:
    """The branch that a local name really is: a symbolic ref pushes what it points to."""
    if not call.ours:
        return "refs/heads/" + branch
    links = machine.git().symrefs
    ref = "refs/heads/" + branch
    for _ in range(5):
        if ref not in links:
            break
        ref = links[ref]
    return ref


def _remapped(machine: Machine, call: GitCall, remote: str, name: str) -> list[Destination]:
    """Where configuration sends a branch that is named without a destination."""
    found: list[Destination] = []
    rules = call.values(machine, f"remote.{remote}.push".lower())
    for rule in rules:
        if vague(rule):
            return [Destination("", f"remote.{remote}.push is set to something unknown")]
        source, _, target = rule.removeprefix("+").partition(":")
        pattern = re.escape(source.removeprefix("refs/heads/").removeprefix("heads/")).replace(r"\*", "(.*)")
        match = re.fullmatch(pattern, name)
        if match and target:
            found.append(Destination(target.replace("*", match.group(1) if match.groups() else "")))
            break
    mode: Sequence[str] = call.values(machine, "push.default")
    if mode and mode[-1].lower() in ("upstream", "tracking"):
        merge = call.values(machine, f"branch.{name}.merge".lower())
        set_here = "push.default" in call.config or "push.default" in call.state.config
        if merge:
            found += [Destination(value) for value in merge[-1:]]
        elif set_here:
            return [Destination("", "push.default=upstream sends it to an upstream that is not known")]
    elif mode and vague(mode[-1]):
        return [Destination("", "push.default is set to something unknown")]
    return found
