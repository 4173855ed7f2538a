"""One-liners of interpreters: refused when they delete outside the worktree, or start a program that would be refused.

Code is not run, only its calls and literals are read; what is asked is whether a recursive delete or a process start stands
beside something outside, the home folder or a value that nobody knows.
"""

from __future__ import annotations

import re

from agent_harness.guards.expand import decode_ansi
from agent_harness.guards.machine import Finding, Invocation, Machine
from agent_harness.guards.marks import HOLE
from agent_harness.guards.options import name_set
from agent_harness.guards.targets import judge_target

_TREE = re.compile(
    r"\b(rmtree|remove_tree|removedirs|rm_rf|rm_r|remove_dir_all|rimraf|rimrafSync|emptyDirSync|removeSync|rmSync|rmdirSync|remove_entry_secure"
    r"|remove_entry|fs(?:/promises)?\.rm|fs\.promises\.rm|rmdir|Remove-Item)\b"
)
_FILE = re.compile(
    r"\b(os\.remove|os\.unlink|unlinkSync|fs\.unlink|unlink|FileUtils\.rm|File\.delete|Dir\.delete|os\.rmdir|truncateSync|Deno\.remove(?:Sync)?)\b"
)
_SPAWN = re.compile(
    r"\b(os\.system|os\.popen|os\.exec\w*|os\.spawn\w*|posix_spawn\w*|subprocess|Popen|getoutput|getstatusoutput|pty\.spawn|child_process|execSync|spawnSync|execFileSync"
    r"|execFile|spawn|system|exec|passthru|shell_exec|popen|proc_open|qx|Open3|IO\.popen|create_subprocess_\w+|Deno\.Command|Bun\.spawn\w*|do\s+shell\s+script)\b"
    r"|`|%x[{(\[]|\|\s*\"|\"\s*\|\s*getline"
)
_STRING = re.compile(
    r'"""(.*?)"""|\'\'\'(.*?)\'\'\'|"((?:[^"\\\n]|\\.)*)"|\'((?:[^\'\\\n]|\\.)*)\'|`((?:[^`\\]|\\.)*)`|qx\s*[{(](.*?)[})]|%x[{(\[](.*?)[})\]]',
    re.DOTALL,
)
_BOUND = re.compile(r"\b\$?([A-Za-z_]\w*)\s*=\s*(?:r|Path\(|pathlib\.Path\()?\s*(['\"])((?:(?!\2).)*)\2\)?")
_HOME = re.compile(r"expanduser|Path\.home|homedir\(|Dir\.home|\bENV\[|os\.environ|getenv|process\.env|\$ENV\{|\$HOME\b")
_SEPARATOR = re.compile(r"[\s,]*")
MAX_STRINGS = 200
INSTEAD = "name a path inside the worktree as a plain string, or use rm on it"


def judge_code(machine: Machine, code: str, language: str, inv: Invocation) -> None:
    """Refuse interpreter code that deletes, or runs, what the shell would not be allowed to."""
    machine.tick(1 + len(code) // 64)
    code = _without_comments(code, language)
    if _SPAWN.search(code):
        _judge_spawned(machine, code, inv)
    if machine.dialect != "rm":
        return
    for pattern, whole in ((_TREE, True), (_FILE, False)):
        for match in pattern.finditer(code):
            machine.tick()
            _judge_delete(machine, code, match, inv, whole=whole)


def _without_comments(code: str, language: str) -> str:
    if language in ("node", "nodejs", "deno", "bun", "php"):
        return re.sub(r"(?m)^\s*//.*$", "", code)
    return re.sub(r"(?m)^\s*#.*$", "", code)


def _strings(code: str) -> list[tuple[int, int, str]]:
    found: list[tuple[int, int, str]] = []
    for match in _STRING.finditer(code):
        text = next((group for group in match.groups() if group is not None), "")
        found.append((match.start(), match.end(), decode_ansi(text) if "\\" in text else text))
        if len(found) > MAX_STRINGS:
            break
    return found


def _judge_spawned(machine: Machine, code: str, inv: Invocation) -> None:
    """Every string, and every list of strings, is tried as the command that it may be."""
    strings = _strings(code)
    run: list[str] = []
    previous = -1
    for start, end, text in strings:
        machine.tick()
        joined = previous >= 0 and _SEPARATOR.fullmatch(code, previous, start)
        if not joined:
            _try_list(machine, run, inv)
            run = []
        run.append(text)
        previous = end
        if _looks_like_command(text):
            machine.run_child(text, inv)
    _try_list(machine, run, inv)


def _looks_like_command(text: str) -> bool:
    return bool(re.search(r"\b(rm|git|sh|bash|find|shred|unlink|gh|rsync|eval|dd|curl)\b", text)) and bool(re.search(r"\s", text))


def _try_list(machine: Machine, words: list[str], inv: Invocation) -> None:
    if len(words) > 1 and re.fullmatch(r"[\w./-]+", words[0]) and words[0].rpartition("/")[2] in _STARTERS:
        machine.dispatch(Invocation(list(words), inv.state.copy(), dict(inv.env)))


_STARTERS = name_set("rm git sh bash zsh dash find shred unlink gh rsync sudo env dd truncate mv xargs nohup timeout rmdir")


def _judge_delete(machine: Machine, code: str, match: re.Match[str], inv: Invocation, *, whole: bool) -> None:
    """One deleting call: its arguments must be plain strings that name what may be deleted."""
    if any(start < match.start() < end - 1 for start, end, _ in _strings(code)):
        return
    arguments = _arguments(code, match.end())
    if arguments is None:
        receiver = re.search(r"Path\(\s*['\"]([^'\"]*)['\"]\s*\)\s*\.\s*$", code[: match.start()])
        if receiver:
            _refuse(machine, receiver.group(1), inv)
        return
    words = [text for _, _, text in _strings(arguments)]
    if _HOME.search(arguments):
        _block(machine, match.group(), "its target comes from the home folder or the environment")
    words = [word for word in words if not re.fullmatch(r"recursive|force|true|utf-?8", word)]
    for word in words:
        _refuse(machine, word, inv)
    receiver = re.search(r"Path\(\s*['\"]([^'\"]*)['\"]\s*\)\s*\.\s*$", code[: match.start()])
    if receiver:
        _refuse(machine, receiver.group(1), inv)
        return
    if words or not whole:
        return
    bound = {name: value for name, _, value in _BOUND.findall(code)}
    name = re.match(r"\s*\$?([A-Za-z_]\w*)\s*[,)\n;]?", arguments)
    if name and name.group(1) in bound:
        _refuse(machine, bound[name.group(1)], inv)
    elif arguments.strip():
        _block(machine, match.group(), "what it deletes cannot be known before it runs")


def _arguments(code: str, at: int) -> str | None:
    """The text of a call's arguments; None when no call follows the name."""
    rest = code[at : at + 400]
    opening = re.match(r"\s*\(", rest)
    if opening is None:
        bare = re.match(r"[ \t]+([^;\n)}]+)", rest)
        return (
            bare.group(1)
            if bare and not bare.group(1).startswith(("=", "import", "as ")) and re.match(r"['\"$A-Z]", bare.group(1))
            else None
        )
    depth = 0
    for index, char in enumerate(rest):
        depth += (char == "(") - (char == ")")
        if depth == 0 and index >= opening.end() - 1:
            return rest[opening.end() : index]
    return rest[opening.end() :]


def _refuse(machine: Machine, word: str, inv: Invocation) -> None:
    if word.startswith("~"):
        _block(machine, word, "it names the home folder")
    finding = judge_target(machine, word, inv.state)
    if finding is not None:
        machine.block(finding)


def _block(machine: Machine, word: str, reason: str) -> None:
    machine.block(Finding("rm.code", f"this code deletes, and {reason}", INSTEAD, (word.replace(HOLE, "…"),)))
