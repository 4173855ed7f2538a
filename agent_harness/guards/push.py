"""The push rule: nothing moves the default branch, `main` or `master`, on any remote."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from agent_harness.guards.gitcall import GitCall, read_git
from agent_harness.guards.machine import Finding, Invocation, Machine
from agent_harness.guards.marks import GONE, show, unknown, vague
from agent_harness.guards.refspecs import destinations, protected
from agent_harness.guards.routes import check_route

# git's own table: long option -> whether it takes a value from the next word.
_LONG: dict[str, bool] = {
    "verbose": False, "quiet": False, "repo": True, "all": False, "branches": False, "mirror": False, "delete": False,
    "tags": False, "dry-run": False, "porcelain": False, "force": False, "force-with-lease": False, "force-if-includes": False,
    "recurse-submodules": True, "receive-pack": True, "exec": True, "set-upstream": False, "progress": False, "prune": False,
    "verify": False, "follow-tags": False, "signed": False, "atomic": False, "push-option": True, "ipv4": False, "ipv6": False,
    "thin": False, "help": False,
}  # fmt: skip
_SHORT: dict[str, str] = {
    "v": "verbose", "q": "quiet", "d": "delete", "n": "dry-run", "f": "force", "u": "set-upstream", "o": "push-option",
    "4": "ipv4", "6": "ipv6", "h": "help",
}  # fmt: skip


@dataclass(slots=True)
class _Options:
    on: set[str] = field(default_factory=set[str])
    values: dict[str, str] = field(default_factory=dict[str, str])
    words: list[str] = field(default_factory=list[str])
    problem: str = ""


def check(machine: Machine, inv: Invocation) -> None:
    """Refuse a command that could move a protected branch of a remote."""
    name = inv.name
    if name in ("git", "hub") or name.startswith("git-"):
        _check_git(machine, inv)
    else:
        check_route(machine, inv)


def instead(machine: Machine) -> str:
    """What to do instead of any push that is refused."""
    branch = machine.git().own_branch
    command = " ".join(("git", "push", "-u", "origin", f"HEAD:refs/heads/{branch}"))
    return f"the harness pushes {branch} by itself when the session succeeds; to push now use exactly: {command}"


def _refuse(machine: Machine, rule: str, reason: str, words: list[str], target: str = "") -> None:
    machine.block(Finding(f"push.{rule}", reason, instead(machine), tuple(show(word) for word in words), target))


def _check_git(machine: Machine, inv: Invocation) -> None:
    call = read_git(machine, inv)
    if call is None:
        return
    if unknown(call.sub):
        _refuse(machine, "unknown", "which git command it is cannot be known before it runs", inv.argv)
        return
    match call.sub.lower():
        case "push":
            _check_push(machine, inv, call)
        case "send-pack" | "http-push":
            _check_plumbing(machine, call)
        case "subtree" if call.args[:1] == ["push"]:
            words = _read_options(call.args[1:], prefix=True).words
            _check_refspecs(machine, call, words[:1], words[1:])
        case "svn" if call.args[:1] in (["dcommit"], ["commit-diff"], ["set-tree"], ["branch"]):
            _refuse(machine, "route", f"`git svn {call.args[0]}` publishes to the upstream repository", inv.argv)
        case "p4" if call.args[:1] == ["submit"]:
            _refuse(machine, "route", "`git p4 submit` publishes to the upstream repository", inv.argv)
        case "cvsexportcommit":
            _refuse(machine, "route", "it publishes to the upstream repository", inv.argv)
        case "config":
            _check_config(machine, call)
        case _:
            pass


def _check_push(machine: Machine, inv: Invocation, call: GitCall) -> None:
    options = _read_options(call.args)
    if "help" in options.on:
        return
    if options.problem:
        _refuse(machine, "unknown", options.problem, inv.argv)
    for key in ("all", "branches", "mirror"):
        if key in options.on:
            _refuse(machine, "bulk", f"`--{key}` pushes every branch, the protected ones too", inv.argv)
    if "no-verify" in options.on:
        _refuse(machine, "hooks", "`--no-verify` skips the hook that checks pushes", inv.argv)
    _check_surroundings(machine, inv, call)
    for key in ("receive-pack", "exec"):
        if options.values.get(key):
            machine.run_child(options.values[key], Invocation(inv.argv, inv.state.copy(), inv.env))
    words = [word for word in options.words if word == "" or word.strip(GONE)]
    remote, specs = words[:1], words[1:]
    if any(_mirrors(machine, call, name) for name in (remote or list(machine.git().remotes) or ["origin"])):
        _refuse(machine, "bulk", "the remote is configured as a mirror: every branch would be pushed", inv.argv)
    if remote and vague(remote[0]):
        _refuse(
            machine, "unknown", f"what {show(remote[0])!r} is cannot be known before it runs; it could be an option", inv.argv
        )
    if not specs:
        if "tags" in options.on:
            return
        where = f" to {remote[0]!r}" if remote else ""
        reason = f"a push{where} without a refspec goes wherever the configuration says"
        _refuse(machine, "bare", reason, inv.argv)
        return
    _check_refspecs(machine, call, remote, specs, delete="delete" in options.on)


def _mirrors(machine: Machine, call: GitCall, remote: str) -> bool:
    values = call.values(machine, f"remote.{remote}.mirror".lower())
    return bool(values) and values[-1].lower() not in ("false", "no", "off", "0", "")


def _check_surroundings(machine: Machine, inv: Invocation, call: GitCall) -> None:
    if call.foreign_config or call.state.foreign_config:
        _refuse(machine, "config", "git would read configuration that cannot be known before it runs", inv.argv)
    if call.other_programs:
        _refuse(machine, "config", "git's own programs would be taken from another folder", inv.argv)
    if call.config.get("core.hookspath") or call.state.config.get("core.hookspath"):
        _refuse(machine, "hooks", "setting core.hooksPath skips the hook that checks pushes", inv.argv)


def _check_refspecs(machine: Machine, call: GitCall, remote: list[str], specs: list[str], *, delete: bool = False) -> None:
    name = remote[0] if remote else "origin"
    at = 0
    while at < len(specs):
        spec = specs[at]
        at += 1
        if spec == "tag" and at < len(specs) and not vague(specs[at]):
            at += 1
            continue
        if delete and not vague(spec) and ":" not in spec:
            spec = ":" + spec
        machine.tick(2)
        for destination in destinations(machine, call, name, spec):
            if destination.problem:
                _refuse(machine, "unknown", f"{show(spec)!r}: {destination.problem}", [show(spec)])
            elif branch := protected(machine, destination.ref):
                _refuse(machine, "protected", f"{show(spec)!r} would move {branch!r} on {show(name)!r}", [show(spec)], branch)


def _check_plumbing(machine: Machine, call: GitCall) -> None:
    words = [word for word in call.args if not word.startswith("-")]
    if any(word in ("--all", "--mirror", "--stdin") for word in call.args) or len(words) < 2:
        _refuse(
            machine, "bulk", f"`git {call.sub}` without refspecs pushes every branch that both sides have", [call.sub, *call.args]
        )
    _check_refspecs(machine, call, words[:1], words[1:])


_PREPARES = re.compile(r"remote\..*\.(push|mirror)|core\.hookspath")


def _check_config(machine: Machine, call: GitCall) -> None:
    """Configuration that sends later pushes elsewhere is refused where it is set."""
    words = [word for word in call.args if not word.startswith("-")]
    if words[:1] == ["set"]:
        words = words[1:]
    reads = any(word.startswith(("--get", "--unset", "--list", "--remove")) or word == "-l" for word in call.args)
    if len(words) < 2 or reads or words[0] in ("get", "unset", "list"):
        return
    key, value = words[0].lower(), words[1]
    if key == "push.default" and value.lower() in ("matching", "upstream", "tracking"):
        _refuse(machine, "config", f"push.default={show(value)} lets a later push move a protected branch", words)
    elif _PREPARES.fullmatch(key):
        _refuse(machine, "config", f"setting {words[0]!r} lets a later push move a protected branch", words)


def _read_options(args: list[str], *, prefix: bool = False) -> _Options:
    """Options and operands, abbreviations and negations resolved; the last one wins."""
    found = _Options()
    at = 0
    while at < len(args):
        word = args[at]
        at += 1
        if word == "--":
            found.words += args[at:]
            break
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            if prefix and name in ("prefix", "P", "rejoin", "squash", "branch", "onto", "annotate"):
                at += not equals and name in ("prefix", "branch", "onto", "annotate")
                continue
            at += _long(found, name, equals, value, args[at] if at < len(args) else "")
        elif word.startswith("-") and len(word) > 1:
            at += _short(found, word, args[at] if at < len(args) else "", prefix=prefix)
        else:
            found.words.append(word)
    return found


def _long(found: _Options, name: str, equals: str, value: str, following: str) -> int:
    negated = name.startswith("no-")
    stem = name[3:] if negated else name
    matches = [stem] if stem in _LONG else [each for each in _LONG if each.startswith(stem)]
    if len(matches) > 1 and all(each.startswith("force") for each in matches):
        matches = ["force"]
    if len(matches) != 1 or vague(name):
        found.problem = f"a push has no option {show('--' + name)!r}, or more than one that it could mean"
        return 0
    option = matches[0]
    if negated:
        found.on.discard(option)
        if option == "verify":
            found.on.add("no-verify")
        return 0
    found.on.add(option)
    if option == "verify":
        found.on.discard("no-verify")
    takes = _LONG[option] and not equals
    found.values[option] = following if takes else value
    return int(takes)


def _short(found: _Options, word: str, following: str, *, prefix: bool) -> int:
    for number, letter in enumerate(word[1:], 1):
        if prefix and letter == "P":
            return int(number == len(word) - 1)
        option = _SHORT.get(letter)
        if option is None:
            found.problem = f"a push has no option {show('-' + letter)!r}"
            return 0
        found.on.add(option)
        if option == "push-option":
            return int(number == len(word) - 1)
    return 0
