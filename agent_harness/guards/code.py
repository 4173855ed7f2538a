"""One-liners of interpreters: refused when they delete outside the worktree, or start a program that would be refused.

Code is not run, only its calls and literals are read; what is asked is whether a recursive delete or a process start stands
beside something outside, the home folder or a value that nobody knows.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

from agent_harness.guards.expand import decode_ansi
from agent_harness.guards.machine import Finding, Invocation, Machine
from agent_harness.guards.marks import GAP, HOLE, show
from agent_harness.guards.options import name_set
from agent_harness.guards.targets import absolute, inside, judge_target

_TREE = re.compile(
    r"\b(rmtree|remove_tree|removedirs|rm_rf|rm_r|remove_dir_all|rimraf|rimrafSync|emptyDirSync|removeSync|rmSync|rmdirSync"
    r"|remove_entry_secure|remove_entry|fs(?:/promises)?\.rm|fs\.promises\.rm|rmdir|Remove-Item)\b"
)
_FILE = re.compile(
    r"\b(os\.remove|os\.unlink|unlinkSync|fs\.unlink|unlink|FileUtils\.rm|File\.delete|Dir\.delete|os\.rmdir|truncateSync"
    r"|Deno\.remove(?:Sync)?)\b"
)
_SPAWN = re.compile(
    r"\b(os\.system|os\.popen|os\.exec\w*|os\.spawn\w*|posix_spawn\w*|subprocess|Popen|getoutput|getstatusoutput|pty\.spawn"
    r"|child_process|execSync|spawnSync|execFileSync|execFile|spawn|system|exec|execvp?e?|passthru|shell_exec|popen|proc_open|qx"
    r"|Open3|IO\.popen|create_subprocess_\w+|Deno\.Command|Bun\.spawn\w*|os\.execute|do\s+shell\s+script)\b"
    r"|`|%x[{(\[]|\|\s*\"|\"\s*\|\s*getline"
)
_DECODED = re.compile(
    r"\b(?:exec|eval|Function|instance_eval)\b.*\b(?:b64decode|a85decode|fromhex|unhexlify|decompress|urlopen|requests\.get"
    r"|codecs\.decode|atob|Buffer\.from|decode64|base64_decode|MIME::Base64)\b",
    re.DOTALL,
)
_STRING = re.compile(
    r'"""(.*?)"""|\'\'\'(.*?)\'\'\'|"((?:[^"\\\n]|\\.)*)"|\'((?:[^\'\\\n]|\\.)*)\'|`((?:[^`\\]|\\.)*)`'
    r"|qx\s*[{(](.*?)[})]|%x[{(\[](.*?)[})\]]",
    re.DOTALL,
)
_BOUND = re.compile(r"\b\$?([A-Za-z_]\w*)\s*=\s*(?:r|Path\(|pathlib\.Path\()?\s*(['\"])((?:(?!\2).)*)\2\)?")
_HOME = re.compile(
    r"expanduser|Path\.home|homedir\(|Dir\.home|\bENV\[|os\.environ|getenv|process\.env|\$ENV\{|\$HOME\b|argv\b|ARGV\b"
)
_RECEIVER = re.compile(r"Path\(\s*['\"]([^'\"]*)['\"]\s*\)\s*\.\s*$")
_CHANGED_FOLDER = re.compile(r"\bchdir\s*\(?\s*['\"]([^'\"]*)['\"]")
_PLACE = re.compile(r"(~|/[\w.]|\.\.(/|$))")
_JOINED = re.compile(r"[\s,\[(]*")
_GOES_ON = re.compile(r"\s*,\s*[^\s\])}'\"]")
_DANGEROUS = re.compile(r"\b(rm|git|sh|bash|find|shred|unlink|gh|rsync|eval|dd|curl|base64)\b")
_STARTERS = name_set("rm git sh bash zsh dash find shred unlink gh rsync sudo env dd truncate mv xargs nohup timeout rmdir")
_GIT_LIBRARY = re.compile(r"\bgit\b|dulwich|pygit2|simple-git|nodegit|isomorphic-git|Rugged", re.IGNORECASE)
_PUSH_CALL = re.compile(r"\.push\(([^)]*)\)")
_API_WRITE = re.compile(r"\b(put|post|patch|delete|PUT|POST|PATCH|DELETE|urlopen|request)\b")
_API_URL = re.compile(r"repos/[^/\s]*/[^/\s]*/(?:git/refs|contents|merges|merge-upstream|pulls/[^/\s]*/merge)[^\s'\"`]*")
_POWERSHELL = re.compile(r"\b(?:Remove-Item|ri|rm|del|erase|rd|rmdir)\b([^;|\n]*)", re.IGNORECASE)
MAX_STRINGS = 200
INSTEAD = "name a path inside the worktree as a plain string, or use rm on it"


@dataclass(frozen=True, slots=True)
class _Literal:
    """A string in the code; `text` holds a HOLE where a value is put in."""

    start: int
    end: int
    text: str


def judge_code(machine: Machine, code: str, language: str, inv: Invocation) -> None:
    """Refuse interpreter code that deletes, or runs, what the shell would not be allowed to."""
    machine.tick(1 + len(code) // 64)
    code = _without_comments(code, language)
    strings = _strings(code)
    if _DECODED.search(code):
        reason = "it runs code that it decodes or downloads first, which cannot be read before it runs"
        machine.block(Finding("shell.opaque", reason, "write the code out so that it can be read"))
    if _SPAWN.search(code):
        _judge_spawned(machine, code, strings, inv)
    if machine.dialect == "push":
        _judge_pushes(machine, code, inv)
    elif machine.dialect == "rm":
        if language in ("pwsh", "powershell"):
            _judge_powershell(machine, code, inv)
        _judge_deletes(machine, code, strings, inv)


def _without_comments(code: str, language: str) -> str:
    if language in ("node", "nodejs", "deno", "bun", "php"):
        return re.sub(r"(?m)^\s*//.*$", "", code)
    return re.sub(r"(?m)^\s*#.*$", "", code)


def _strings(code: str) -> list[_Literal]:
    found: list[_Literal] = []
    for match in _STRING.finditer(code):
        text = next((group for group in match.groups() if group is not None), "")
        text = decode_ansi(text) if "\\" in text else text
        start, end = match.span()
        if code[start - 1 : start].lower() == "f" or code[start] == "`":
            text = re.sub(r"\$?\{[^}]*\}", HOLE, text)
        after = code[end : end + 12].lstrip()
        if after.startswith(("%", ".format")):
            text = re.sub(r"%[sdr]|\{\w*\}", HOLE, text)
        elif re.match(r"\+|\.\s*\$|\.\.", after):
            text += HOLE
        found.append(_Literal(start, end, text))
        if len(found) > MAX_STRINGS:
            break
    return found


def _judge_spawned(machine: Machine, code: str, strings: list[_Literal], inv: Invocation) -> None:
    """Every string, and every list of strings, is tried as the command that it may be."""
    run: list[str] = []
    previous = -1
    for each in strings:
        machine.tick()
        if previous >= 0 and not _JOINED.fullmatch(code, previous, each.start):
            _try_list(machine, code, previous, run, inv)
            run = []
        run.append(each.text)
        previous = each.end
        if _DANGEROUS.search(each.text) and re.search(r"\s", each.text):
            machine.run_child(each.text, inv)
    _try_list(machine, code, previous, run, inv)


def _try_list(machine: Machine, code: str, end: int, words: list[str], inv: Invocation) -> None:
    if not words or words[0].rpartition("/")[2] not in _STARTERS:
        return
    more = [GAP] if _GOES_ON.match(code, end) else []
    if len(words) > 1 or more:
        machine.dispatch(Invocation([*words, *more], inv.state.copy(), dict(inv.env)))


def _judge_deletes(machine: Machine, code: str, strings: list[_Literal], inv: Invocation) -> None:
    found = guessed = False
    for pattern, whole in ((_TREE, True), (_FILE, False)):
        for match in pattern.finditer(code):
            machine.tick()
            holder = next((each for each in strings if each.start < match.start() < each.end - 1), None)
            if holder is not None and holder.text.strip() != match.group():
                continue
            found = True
            guessed |= holder is not None or not _judge_delete(machine, code, match, inv, whole=whole)
    if not found:
        return
    for folder in _CHANGED_FOLDER.findall(code):
        _refuse_outside(machine, folder, inv)
    for each in strings if guessed else ():
        if _PLACE.match(each.text) and not re.search(r"[\s<>\\]|://|^/dev/null$", each.text):
            _refuse_outside(machine, each.text, inv)


def _judge_delete(machine: Machine, code: str, match: re.Match[str], inv: Invocation, *, whole: bool) -> bool:
    """One deleting call: refused unless its target may be deleted; returns whether the target is known."""
    line = code[max(code.rfind("\n", 0, match.start()), match.start() - 80, 0) : match.start()]
    arguments = _arguments(code, match.end())
    receiver = _RECEIVER.search(line)
    if receiver:
        _refuse(machine, receiver.group(1), inv)
        return True
    if arguments is None:
        return False
    if _HOME.search(arguments) or (_HOME.search(line) and line.rstrip().endswith(".")):
        _block(machine, match.group(), "its target comes from the home folder, the environment or the command line")
    words = [each.text for each in _strings(arguments)]
    words = [word for word in words if not re.fullmatch(r"recursive|force|true|utf-?8", word)]
    for word in words:
        _refuse(machine, word, inv)
    if words:
        return True
    bound = {name: value for name, _, value in _BOUND.findall(code)}
    name = re.match(r"\s*\$?([A-Za-z_]\w*)\s*[,)\n;]?", arguments)
    if name and name.group(1) in bound:
        _refuse(machine, bound[name.group(1)], inv)
        return True
    if whole and arguments.strip():
        _block(machine, match.group(), "what it deletes cannot be known before it runs")
    return False


def _arguments(code: str, at: int) -> str | None:
    """The text of a call's arguments; None when no call follows the name."""
    rest = code[at : at + 400]
    opening = re.match(r"\s*\(", rest)
    if opening is None:
        bare = re.match(r"[ \t]+((?:['\"$@<]|glob\b|[A-Z])[^;\n)}]*)", rest)
        return bare.group(1) if bare else None
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


def _refuse_outside(machine: Machine, word: str, inv: Invocation) -> None:
    """A literal beside a delete that names a place outside."""
    place = absolute(word.split("*", 1)[0], inv.state)
    if word.startswith("~") or HOLE in word or place is None or not inside(machine.world, place):
        _block(machine, word, f"it names {show(word)!r}, which is outside the worktree")


def _block(machine: Machine, word: str, reason: str) -> None:
    machine.block(Finding("rm.code", f"this code deletes, and {reason}", INSTEAD, (show(word),)))


def _judge_powershell(machine: Machine, code: str, inv: Invocation) -> None:
    for match in _POWERSHELL.finditer(code):
        try:
            words = shlex.split(match.group(1).replace("\\", "/"))
        except ValueError:
            words = [HOLE]
        for word in words:
            if not word.startswith("-"):
                _refuse(machine, HOLE if word.startswith("$") else word, inv)


def _judge_pushes(machine: Machine, code: str, inv: Invocation) -> None:
    """Pushes through a git library, and writes to the API of a forge."""
    if _GIT_LIBRARY.search(code):
        for match in _PUSH_CALL.finditer(code):
            words = [each.text for each in _strings(match.group(1))]
            remote = [] if len(words) > 1 else ["origin"]
            unknown_words = [HOLE] if match.group(1).strip() and not words else []
            machine.dispatch(Invocation(["git", "push", *remote, *words, *unknown_words], inv.state.copy(), dict(inv.env)))
    if _API_WRITE.search(code):
        for match in _API_URL.finditer(code):
            method = next((word.upper() for word in _API_WRITE.findall(code) if word.lower() in _METHODS), "PATCH")
            machine.dispatch(Invocation(["curl", "-X", method, "https://x/" + match.group()], inv.state.copy(), dict(inv.env)))


_METHODS = frozenset(("put", "post", "patch", "delete"))
