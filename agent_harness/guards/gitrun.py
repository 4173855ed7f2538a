"""What git commands other than push do to the world of this line: aliases, programs, HEAD, configuration, output."""

from __future__ import annotations

import re

from agent_harness.guards.gitcall import PROGRAM_KEY, PROGRAM_VARIABLES, GitCall, alias_words, put, read_git
from agent_harness.guards.machine import Handler, Invocation, Machine, Unanalysed
from agent_harness.guards.marks import DEEP, HOLE, SAFE, plain_list, unknown, vague
from agent_harness.guards.options import name_set, operands, values_of
from agent_harness.guards.state import State
from agent_harness.guards.targets import absolute

MAX_ALIASES = 10
_BUILTIN = name_set(
    "add am annotate apply archive bisect blame branch bundle cat-file check-ignore checkout cherry cherry-pick clean "
    "clone commit config describe diff difftool fetch filter-branch for-each-ref format-patch fsck gc grep help init log "
    "ls-files ls-remote ls-tree merge merge-base mergetool mv notes pull push range-diff rebase reflog remote repack "
    "replace request-pull reset restore rev-list rev-parse revert rm send-pack shortlog show show-branch show-ref sparse- "
    "checkout stash status submodule subtree svn switch symbolic-ref tag update-index update-ref version worktree lfs"
)


def git(machine: Machine, inv: Invocation) -> list[State]:
    """Run a git command line as far as later commands can notice."""
    call = read_git(machine, inv)
    state = inv.state
    for name in PROGRAM_VARIABLES:
        value = inv.env.get(name)
        if value and not unknown(value):
            machine.run_child(value, Invocation(inv.argv, state.copy()))
    if call is None:
        state.say(HOLE)
        return [state.done(True)]
    for key, values in call.config.items():
        if PROGRAM_KEY.fullmatch(key):
            for value in values:
                machine.run_child(value.lstrip("!"), Invocation(inv.argv, state.copy()))
    if unknown(call.sub):
        state.say(HOLE)
        return [state.done(None)]
    if call.sub not in _BUILTIN and (alias := call.values(machine, f"alias.{call.sub}".lower())):
        return _alias(machine, inv, call, alias[-1])
    effect = _EFFECTS.get(call.sub)
    if effect is not None:
        return effect(machine, inv, call)
    state.say(HOLE)
    return [state.done(None)]


def _alias(machine: Machine, inv: Invocation, call: GitCall, text: str) -> list[State]:
    depth = inv.env.get("\0aliases", "")
    if len(depth) >= MAX_ALIASES:
        raise Unanalysed("git aliases call each other without end")
    env = {**inv.env, "\0aliases": depth + "x"}
    if text.startswith("!"):
        state = inv.state
        before = state.cwd
        state.cwd = call.worktree or state.cwd
        code = text[1:]
        if call.args:
            code += ' "$@"'
        results = machine.run_child(code, Invocation(inv.argv, state, env), call.args, "sh")
        for result in results:
            result.cwd = before
        return results
    words = alias_words(text)
    if words is None:
        raise Unanalysed(f"the git alias {call.sub!r} cannot be read")
    return machine.dispatch(Invocation(["git", *call.leading, *words, *call.args], inv.state, env))


def _effect(machine: Machine, inv: Invocation, call: GitCall) -> list[State]:
    _ = machine, call
    inv.state.say(HOLE)
    return [inv.state.done(None)]


def _branched(inv: Invocation, call: GitCall, branch: str | None) -> list[State]:
    """After HEAD moved: the command worked, or it failed and nothing changed."""
    if not call.ours:
        return [inv.state.done(None)]
    failed = inv.state.copy().done(False)
    inv.state.branch = HOLE if branch is not None and vague(branch) else branch
    return [inv.state.done(True), failed]


def _checkout(machine: Machine, inv: Invocation, call: GitCall) -> list[State]:
    words = call.args
    for names in ("-b -B -c -C --create --force-create --orphan",):
        if created := values_of(words, names, "-t --conflict"):
            return _branched(inv, call, created[0] or HOLE)
    if "--" in words:
        words = words[: words.index("--")]
        if len(operands(words, "")) != 1:
            return [inv.state.done(None)]
        return [inv.state.done(None)]
    names = operands(words, "--conflict")
    if any(word in ("-d", "--detach") for word in words):
        return _branched(inv, call, None)
    if not names:
        return [inv.state.done(None)]
    name = names[0]
    if name == "-" or re.fullmatch(r"@\{-\d+\}", name):
        return _branched(inv, call, HOLE)
    if len(names) > 1:
        return [inv.state.done(None)]
    facts = machine.git()
    remote, slash, rest = name.partition("/")
    if slash and remote in (*facts.remotes, "origin") and name not in facts.local_branches:
        tracked = any(word in ("-t", "--track") or word.startswith("--track=") for word in words)
        return _branched(inv, call, rest if tracked else None)
    known = name in facts.local_branches or name.casefold() in ("main", "master", facts.default_branch.casefold())
    if call.sub == "checkout" and not known and not vague(name):
        place = (call.state.cwd or "") + "/" + name
        if machine.world.is_dir(place) or machine.world.glob(place) or name in (".", ".."):
            return [inv.state.done(None)]
    return _branched(inv, call, name)


def _branch(machine: Machine, inv: Invocation, call: GitCall) -> list[State]:
    words = call.args
    names = operands(words, "-u --set-upstream-to --contains --merged --sort --format")
    upstream = values_of(words, "-u --set-upstream-to")
    if upstream and call.ours:
        branch = names[0] if names else (inv.state.branch or HOLE)
        _upstream(inv.state, branch, upstream[0])
    if any(re.fullmatch(r"-\w*[mMcC]\w*|--move|--copy", word) for word in words) and names and call.ours:
        moved, current = names[-1], inv.state.branch
        if any(re.fullmatch(r"-\w*[mM]\w*|--move", word) for word in words) and (
            len(names) == 1 or names[0] == current or vague(names[0])
        ):
            return _branched(inv, call, moved)
        return [inv.state.done(None)]
    if "--show-current" in words:
        inv.state.say((inv.state.branch or "") + "\n" if call.ours else HOLE)
        return [inv.state.done(True)]
    return _effect(machine, inv, call)


def _upstream(state: State, branch: str, upstream: str) -> None:
    if vague(branch) or vague(upstream):
        state.foreign_config = True
        return
    remote, _, name = upstream.partition("/")
    put(state.config, f"branch.{branch}.remote", remote)
    put(state.config, f"branch.{branch}.merge", "refs/heads/" + name)


def _symbolic_ref(machine: Machine, inv: Invocation, call: GitCall) -> list[State]:
    names = operands(call.args, "-m")
    if len(names) > 1:
        return _branched(inv, call, names[1].removeprefix("refs/heads/")) if names[0] == "HEAD" else _effect(machine, inv, call)
    if names == ["HEAD"] and call.ours and inv.state.branch is not None:
        short = "--short" in call.args
        inv.state.say(("" if short else "refs/heads/") + inv.state.branch + "\n")
    else:
        inv.state.say(HOLE)
    return [inv.state.done(True)]


def _rev_parse(machine: Machine, inv: Invocation, call: GitCall) -> list[State]:
    state, words = inv.state, call.args
    root = call.worktree if call.ours else None
    if words == ["--show-toplevel"]:
        state.say(root + "\n" if root else HOLE)
    elif words == ["--abbrev-ref", "HEAD"] and call.ours:
        state.say((state.branch or "HEAD") + "\n")
    elif words in (["--git-dir"], ["--absolute-git-dir"], ["--git-common-dir"]):
        state.say(root + "/.git\n" if root else HOLE)
    else:
        _effect(machine, inv, call)
    return [state.done(True)]


def _ls_files(machine: Machine, inv: Invocation, call: GitCall) -> list[State]:
    _ = machine
    separator = "\0" if "-z" in call.args else "\n"
    inv.state.say(f"./{DEEP}/{SAFE}{separator}" if call.ours and call.worktree else HOLE)
    return [inv.state.done(None)]


def _config(machine: Machine, inv: Invocation, call: GitCall) -> list[State]:
    state = inv.state
    words = operands(call.args, "-f --file --blob --type --default")
    if words[:1] in (["set"], ["get"], ["unset"], ["list"], ["edit"]):
        if words[0] != "set":
            return _effect(machine, inv, call)
        words = words[1:]
    if (
        any(word.startswith(("--get", "--list", "--unset", "--remove-section")) or word == "-l" for word in call.args)
        or len(words) < 2
    ):
        if len(words) == 1 and call.ours and not vague(words[0]) and not any(word.startswith("--unset") for word in call.args):
            found = call.values(machine, words[0].lower())
            state.say(found[-1] + "\n" if found else HOLE)
            return [state.done(None)]
        return _effect(machine, inv, call)
    key, value = words[0], words[1]
    if vague(key):
        state.foreign_config = True
        return [state.done(True)]
    low = key.lower()
    if low.startswith("include"):
        state.foreign_config = True
    put(state.config, key, HOLE if vague(value) else value, add="--add" in call.args)
    if PROGRAM_KEY.fullmatch(low) and not vague(value):
        machine.run_child(value.lstrip("!"), Invocation(inv.argv, state.copy()))
    if low.startswith("alias.") and not vague(value):
        # Whoever defines an alias means to use it, maybe in a later call that shows only its name.
        trial = state.copy()
        _alias(machine, Invocation(["git"], trial, inv.env), GitCall(low[6:], [], trial, [], call.worktree, call.ours), value)
    return [state.done(True)]


def _remote(machine: Machine, inv: Invocation, call: GitCall) -> list[State]:
    words = call.args
    if words[:1] == ["add"] and any(word.startswith("--mirror") for word in words):
        names = operands(words[1:], "-t -m")
        if names:
            put(inv.state.config, f"remote.{names[0]}.mirror", "true")
    return _effect(machine, inv, call)


def _submodule(machine: Machine, inv: Invocation, call: GitCall) -> list[State]:
    words = [word for word in call.args if not word.startswith("-")]
    if words[:1] == ["foreach"] and len(words) > 1:
        rest = call.args[call.args.index("foreach") + 1 :]
        rest = [word for number, word in enumerate(rest) if not (number == 0 and word.startswith("--"))]
        code = rest[0] if len(rest) == 1 else " ".join(rest)
        return machine.run_child(code, inv)
    return _effect(machine, inv, call)


def _bisect(machine: Machine, inv: Invocation, call: GitCall) -> list[State]:
    if call.args[:1] == ["run"] and len(call.args) > 1:
        machine.dispatch(Invocation(call.args[1:], inv.state.copy(), inv.env))
    if call.args[:1] in (["start"], ["good"], ["bad"], ["reset"]):
        return _branched(inv, call, HOLE)
    return _effect(machine, inv, call)


def _rebase(machine: Machine, inv: Invocation, call: GitCall) -> list[State]:
    taking = "-x --exec --onto -s -X --strategy -C"
    for code in values_of(call.args, "-x --exec", taking):
        machine.run_child(code, Invocation(inv.argv, inv.state.copy(), inv.env))
    names = operands(call.args, taking)
    if len(names) > 1:
        return _branched(inv, call, names[1])
    return _effect(machine, inv, call)


def _filter_branch(machine: Machine, inv: Invocation, call: GitCall) -> list[State]:
    for index, word in enumerate(call.args[:-1]):
        if re.fullmatch(r"--(setup|env|tree|index|msg|commit|tag-name|parent)-?(filter)?", word):
            machine.run_child(call.args[index + 1], Invocation(inv.argv, inv.state.copy(), inv.env))
    return _effect(machine, inv, call)


def _difftool(machine: Machine, inv: Invocation, call: GitCall) -> list[State]:
    for code in values_of(call.args, "-x --extcmd"):
        machine.run_child(code, Invocation(inv.argv, inv.state.copy(), inv.env))
    return _effect(machine, inv, call)


def _clone(machine: Machine, inv: Invocation, call: GitCall) -> list[State]:
    """`clone` and `init` make another repository, maybe inside the worktree."""
    _ = machine
    names = operands(
        call.args, "-b --branch -o --origin -c --config --depth --reference --template --separate-git-dir -u -j --filter"
    )
    folder = names[-1] if names else ""
    if call.sub == "clone" and len(names) == 1:
        folder = folder.rstrip("/").removesuffix(".git").rpartition("/")[2].rpartition(":")[2]
    if folder and (place := absolute(folder, call.state)):
        inv.state.repositories |= {place}
    inv.state.say(HOLE)
    return [inv.state.done(None)]


def _for_each(machine: Machine, inv: Invocation, call: GitCall) -> list[State]:
    _ = machine
    if call.sub == "stash" and call.args[:1] == ["branch"]:
        return _branched(inv, call, call.args[1] if len(call.args) > 1 else HOLE)
    inv.state.say(HOLE)
    return [inv.state.done(None)]


_EFFECTS = {
    "checkout": _checkout,
    "switch": _checkout,
    "branch": _branch,
    "symbolic-ref": _symbolic_ref,
    "rev-parse": _rev_parse,
    "ls-files": _ls_files,
    "config": _config,
    "remote": _remote,
    "submodule": _submodule,
    "bisect": _bisect,
    "rebase": _rebase,
    "filter-branch": _filter_branch,
    "difftool": _difftool,
    "stash": _for_each,
    "clone": _clone,
    "init": _clone,
}


def _gh(machine: Machine, inv: Invocation) -> list[State]:
    """GitHub's command line can switch the checkout."""
    _ = machine
    words = plain_list([word for word in inv.args if not word.startswith("-")])
    if words[:2] in (["pr", "merge"], ["pr", "checkout"]):
        inv.state.branch = HOLE
    inv.state.say(HOLE)
    return [inv.state.done(None)]


GIT: dict[str, Handler] = {"git": git, "hub": git, "gh": _gh}
