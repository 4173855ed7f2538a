"""The rm rule: nothing outside the worktree is deleted, nor the worktree itself, nor git's own folder."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from agent_harness.guards.gitcall import read_git
from agent_harness.guards.machine import Finding, Invocation, Machine
from agent_harness.guards.marks import plain_list, unknown
from agent_harness.guards.options import operands, values_of
from agent_harness.guards.state import State
from agent_harness.guards.targets import INSIDE, absolute, inside, judge_place, judge_target

_DISK = re.compile(r"/dev/(sd|nvme|hd|vd|xvd|mmcblk|disk|mapper|dm-|loop|md|root)")
_SCRATCH = re.compile(r"/dev/|/proc/self/|/tmp/|/var/tmp/")
_SILENT = frozenset((":", "true", "{"))

# Program -> its options that take a value (so that the value is not taken for a path).
_REMOVERS: dict[str, str] = {
    "rm": "",
    "grm": "",
    "srm": "",
    "unlink": "",
    "rmdir": "",
    "rimraf": "",
    "del-cli": "",
    "trash": "",
    "trash-put": "--trash-dir",
    "trash-rm": "",
    "rmtrash": "",
    "wipe": "-Q -q -R -S",
    "shred": "-n -s --iterations --size --random-source",
    "truncate": "-s -r --size --reference",
    "wipefs": "-t -o",
    "blkdiscard": "-o -l -p",
}


def check(machine: Machine, inv: Invocation) -> None:
    """Refuse a command that deletes what it must not."""
    name = inv.name
    if name in _REMOVERS:
        if any(word in ("--help", "--version") for word in inv.args):
            return
        for word in operands(inv.args, _REMOVERS[name]):
            _refuse(machine, judge_target(machine, word, inv.state))
    elif name.startswith("mkfs"):
        machine.block(Finding("rm.disk", "it formats a file system", INSIDE, tuple(inv.args)))
    elif (judge := _OTHERS.get(name)) is not None:
        judge(machine, inv)


def _refuse(machine: Machine, finding: Finding | None) -> None:
    if finding is not None:
        machine.block(finding)


def _all(machine: Machine, words: Sequence[str], state: State) -> None:
    for word in words:
        _refuse(machine, judge_target(machine, word, state))


def _move(machine: Machine, inv: Invocation) -> None:
    words = operands(inv.args, "-t --target-directory -S --suffix")
    moved = words if values_of(inv.args, "-t --target-directory") else words[:-1]
    _all(machine, moved, inv.state)


def _copy(machine: Machine, inv: Invocation) -> None:
    words = operands(inv.args, "-t --target-directory -S --suffix")
    if words and words[0] == "/dev/null":
        _all(machine, words[1:], inv.state)


def _sync(machine: Machine, inv: Invocation) -> None:
    words = operands(inv.args, _RSYNC_VALUES)
    flags = [word for word in inv.args if word.startswith("--del") or word == "--remove-source-files"]
    local = [word for word in words if not re.match(r"[^/]*::?[^/]|rsync://", word)]
    if any(flag.startswith("--del") for flag in flags) and words and words[-1] in local:
        _refuse(machine, judge_target(machine, words[-1].rstrip("/") or "/", inv.state))
    if "--remove-source-files" in flags:
        _all(machine, [word for word in words[:-1] if word in local], inv.state)


_RSYNC_VALUES = (
    "-e --rsh -f --filter -T --temp-dir -B --exclude --include --exclude-from --include-from --files-from --backup-dir "
    "--suffix --rsync-path --chmod --chown --log-file --partial-dir --max-size --min-size --compare-dest --copy-dest "
    "--link-dest --timeout --port --bwlimit -M --out-format"
)


def _dump(machine: Machine, inv: Invocation) -> None:
    for word in inv.args:
        if word.startswith("of="):
            target = word[3:]
            if _DISK.match(target):
                machine.block(Finding("rm.disk", f"it overwrites the device {target!r}", INSIDE, (word,), target))
            elif not target.startswith("/dev/"):
                _refuse(machine, judge_target(machine, target, inv.state))


def _archive(machine: Machine, inv: Invocation) -> None:
    if "--remove-files" not in inv.args:
        return
    state = inv.state
    folders = values_of(inv.args, "-C --directory")
    if folders:
        state = state.copy()
        state.cwd = absolute(folders[0], state)
    words = operands(
        [word for word in inv.args if not re.fullmatch(r"-\w*f", word)], "-C --directory -f --file -X --exclude-from"
    )
    archive = any(re.fullmatch(r"-\w*f", word) for word in inv.args)
    _all(machine, words[1:] if archive else words, state)


def _git(machine: Machine, inv: Invocation) -> None:
    call = read_git(machine, inv)
    if call is None or machine.dialect != "rm":
        return
    words = plain_list(call.args)
    if call.sub == "worktree" and words[:1] == ["remove"]:
        _all(machine, operands(words[1:], ""), call.state)
    if call.sub not in ("clean", "rm"):
        return
    if call.sub == "rm" and "--cached" in words:
        return
    short = {letter for word in words if re.fullmatch(r"-[a-zA-Z]+", word) for letter in word[1:]}
    if call.sub == "clean" and (short & {"n"} or any("--dry-run".startswith(word) and len(word) > 3 for word in words)):
        return
    tree = call.worktree
    finding = None
    if tree is None or unknown(tree):
        reason = f"the work tree that `git {call.sub}` would empty cannot be known before it runs"
        finding = Finding(
            "rm.unknown", reason, "run it in the worktree, without another git directory or work tree", tuple(inv.argv)
        )
    elif not inside(machine.world, tree):
        finding = judge_place(machine.world, tree, tree)
    if finding is None:
        for word in operands(words, "-e --exclude"):
            found = judge_target(machine, word, call.state)
            # git itself never touches its own folder and only removes what the options select.
            outside = found is not None and not inside(machine.world, found.target)
            finding = found if outside else finding
    _refuse(machine, finding)


def _gio(machine: Machine, inv: Invocation) -> None:
    if inv.args[:1] in (["trash"], ["remove"]):
        _all(machine, operands(inv.args[1:], ""), inv.state)


_OTHERS: dict[str, Callable[[Machine, Invocation], None]] = {
    "mv": _move,
    "cp": _copy,
    "rsync": _sync,
    "dd": _dump,
    "tar": _archive,
    "git": _git,
    "gio": _gio,
}


def emptied(machine: Machine, inv: Invocation | None, target: str, state: State) -> None:
    """Refuse a redirection that only empties a file outside the worktree, or that writes on a disk."""
    if machine.dialect != "rm":
        return
    if _DISK.match(target):
        machine.block(Finding("rm.disk", f"it overwrites the device {target!r}", INSIDE, (">", target), target))
    if inv is None or unknown(target) or _SCRATCH.match(target):
        return
    silent = not inv.argv or inv.name in _SILENT or inv.argv in (["cat", "/dev/null"], ["echo", "-n"], ["printf", ""])
    if silent and (finding := judge_target(machine, target, state)) and finding.rule in ("rm.outside", "rm.git"):
        machine.block(finding)
