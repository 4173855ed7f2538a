"""Programs that are given code: shells, remote and later shells, interpreters, tools that start a program."""

from __future__ import annotations

import re

from agent_harness.guards.builtins import code_words, opaque
from agent_harness.guards.code import judge_code
from agent_harness.guards.machine import Handler, Invocation, Machine
from agent_harness.guards.marks import GONE, HOLE, literal, plain_list, unknown
from agent_harness.guards.options import leading, operands, values_of
from agent_harness.guards.state import State

_SHELL_VALUES = "-o +o -O +O --rcfile --init-file"
INTERPRETER = re.compile(
    r"(python|pypy|node|nodejs|deno|bun|perl|ruby|php|lua|awk|gawk|mawk|nawk|osascript|pwsh|powershell|tclsh|rscript)[\d.]*"
)
_CODE_OPTIONS: dict[str, str] = {
    "python": "-c", "pypy": "-c", "node": "-e --eval -p --print", "nodejs": "-e --eval -p --print", "bun": "-e --eval",
    "perl": "-e -E", "ruby": "-e", "php": "-r", "lua": "-e", "osascript": "-e",
    "pwsh": "-c -Command -command", "powershell": "-c -Command -command",
    "rscript": "-e", "deno": "", "tclsh": "",
}  # fmt: skip


def _unreadable(text: str) -> bool:
    """Whether a text that is about to run is unknown as a whole."""
    return unknown(text) and not text.replace(HOLE, "").strip()


def _done(state: State) -> list[State]:
    state.say(HOLE)
    return [state.done(None)]


def _shell(machine: Machine, inv: Invocation) -> list[State]:
    words = [word for word in inv.args if word == "" or word.strip(GONE)]
    if words[:1] in (["--version"], ["--help"]):
        return _done(inv.state)
    at, has_code, from_input = 0, False, False
    while at < len(words) and (words[at].startswith(("-", "+")) and len(words[at]) > 1):
        word = words[at]
        at += 1
        if word in ("--", "-"):
            break
        if word.startswith("--"):
            at += word in ("--rcfile", "--init-file")
            continue
        has_code |= "c" in word[1:]
        from_input |= "s" in word[1:]
        at += word[-1] in "oO"
    rest = words[at:]
    gone = [word for word in inv.args if word and not word.strip(GONE)]
    if has_code:
        if not rest:
            if gone:
                machine.block(opaque("", "a variable that is not set is run as code"))
            return _done(inv.state)
        code = code_words(machine, rest[:1])
        if not code or _unreadable(code[0]):
            machine.block(opaque(rest[0], "the code that it would run cannot be known before it runs"))
            return _done(inv.state)
        return machine.run_child(code[0], inv, rest[2:], rest[1] if len(rest) > 1 else inv.name)
    if rest and not from_input and rest[0] not in ("-", "/dev/stdin", "/proc/self/fd/0"):
        return _script(machine, inv, rest)
    return _from_input(machine, inv, rest if from_input else rest[1:])


def _script(machine: Machine, inv: Invocation, words: list[str]) -> list[State]:
    """A script by its name: judged when this very line wrote it, else left to the sandbox like any program."""
    text = machine.read_file(words[0], inv.state)
    if words[0].startswith("/dev/fd/") and _unreadable(text):
        machine.block(opaque(words[0], "the script that it would run cannot be known before it runs"))
    if _unreadable(text) or not text:
        return _done(inv.state)
    return machine.run_child(text, inv, words[1:], words[0])


def _from_input(machine: Machine, inv: Invocation, args: list[str]) -> list[State]:
    text = inv.state.stdin
    if _unreadable(text) and _named_input(inv):
        return _done(inv.state)
    if _unreadable(text):
        machine.block(opaque(inv.argv[0], "it runs what it reads, and that cannot be known before it runs"))
        return _done(inv.state)
    inv.state.stdin = ""
    return machine.run_child(text, inv, args) if text.strip() else _done(inv.state)


def _named_input(inv: Invocation) -> bool:
    """Whether standard input is a plain file, which is a script by its name like any other."""
    inputs = [each.target for each in inv.redirects if each.operator == "<"]
    return bool(inputs) and literal(inputs[-1]) and not inputs[-1].startswith(("/dev/", "/proc/"))


def _code_option(words: list[str], names: frozenset[str]) -> tuple[str | None, list[str]]:
    """The code given by an option, alone, in a cluster (`-lc`) or attached, and the words before it."""
    for number, word in enumerate(words):
        if word in names:
            return (words[number + 1] if number + 1 < len(words) else ""), words[:number]
        for name in names:
            if name.startswith("--") and word.startswith(name + "="):
                return word[len(name) + 1 :], words[:number]
            if len(name) == 2 and re.fullmatch(r"-[A-Za-z]*" + name[1], word):
                return (words[number + 1] if number + 1 < len(words) else ""), words[:number]
        if not word.startswith("-"):
            return None, words
    return None, words


def interpreter(machine: Machine, inv: Invocation) -> list[State]:
    """Python, Node, Perl and the like: code in an option or on standard input is read, a named file is not."""
    match = INTERPRETER.fullmatch(inv.name)
    language = match.group(1) if match else inv.name
    words = inv.args
    if language in ("awk", "gawk", "mawk", "nawk"):
        return _awk(machine, inv)
    code, before = _code_option(words, frozenset(_CODE_OPTIONS.get(language, "-e").split()))
    if code is None and language == "deno" and words[:1] == ["eval"]:
        code = next((word for word in words[1:] if not word.startswith("-")), "")
    if code is None:
        skip = operands(before, "-W -X -I -M -m -r --require --loader --import")
        named = [word for word in skip if word not in ("-", "/dev/stdin")]
        if any(word in ("-m", "--version", "-V", "--help", "-h", "-v") for word in words[:1]) or any(w == "-m" for w in words):
            return _done(inv.state)
        if named:
            text = machine.read_file(named[0], inv.state)
            code = None if _unreadable(text) else text
            if code is None and named[0].startswith("/dev/fd/"):
                machine.block(opaque(named[0], "the script that it would run cannot be known before it runs"))
        else:
            code = None if _unreadable(inv.state.stdin) and _named_input(inv) else inv.state.stdin
    if code is None:
        return _done(inv.state)
    code = "".join(code_words(machine, [code]))
    if _unreadable(code):
        machine.block(opaque(inv.argv[0], "the code that it would run cannot be known before it runs"))
    modules = " ".join(word for word in before if word.startswith("-M"))
    judge_code(machine, f"{modules} {code}" if modules else code, language, inv)
    return _done(inv.state)


def _awk(machine: Machine, inv: Invocation) -> list[State]:
    files = values_of(inv.args, "-f --file", "-F -v --assign --field-separator")
    words = operands(inv.args, "-f --file -F -v --assign --field-separator")
    code = machine.read_file(files[0], inv.state) if files else (words[0] if words else "")
    if code and not files:
        code = "".join(code_words(machine, [code]))
    if code and not _unreadable(code):
        judge_code(machine, code, "awk", inv)
    return _done(inv.state)


def _sed(machine: Machine, inv: Invocation) -> list[State]:
    """GNU sed's `e` runs a shell command."""
    scripts = values_of(inv.args, "-e --expression", "-f --file -l")
    words = operands(inv.args, "-e --expression -f --file -l")
    for script in scripts or words[:1]:
        for match in re.finditer(r"(?:^|[;{}\n])\s*(?:\d+|\$|/[^/]*/)?(?:,(?:\d+|\$|/[^/]*/))?\s*e\s+([^\n]+)", script):
            machine.run_child(match.group(1), inv)
    inv.state.say(HOLE)
    return [inv.state.done(None)]


def _tar(machine: Machine, inv: Invocation) -> list[State]:
    for word in inv.args:
        match = re.match(
            r"--(?:checkpoint-action=exec=|to-command=|use-compress-program=|info-script=|new-volume-script=|rsh-command=)(.*)",
            word,
            re.DOTALL,
        )
        if match:
            machine.run_child(match.group(1), inv)
    for command in values_of(inv.args, "-I -F"):
        machine.run_child(command, inv)
    return _done(inv.state)


def _editor(machine: Machine, inv: Invocation) -> list[State]:
    words = inv.args
    commands = values_of(words, "-c --cmd") + [word[1:] for word in words if word.startswith("+")]
    for command in commands:
        if match := re.match(r"\s*:?\s*(?:silent!?\s+)?(?:%)?!(.*)|\s*:?\s*call\s+system\(['\"](.*)['\"]\)", command, re.DOTALL):
            machine.run_child(match.group(1) or match.group(2) or "", inv)
    return _done(inv.state)


def _make(machine: Machine, inv: Invocation) -> list[State]:
    """Make is a named program, but a makefile that this line wrote or feeds in is code like any other."""
    for file in values_of(inv.args, "-f --file --makefile", "-C -j -I -o -W"):
        text = inv.state.stdin if file in ("-", "/dev/stdin") else machine.read_file(file, inv.state)
        if _unreadable(text):
            if file in ("-", "/dev/stdin"):
                machine.block(opaque(file, "the makefile cannot be known before it runs"))
            continue
        for line in text.split("\n"):
            if line.startswith("\t"):
                machine.run_child(line.lstrip("\t @-+").replace("$$", "$"), inv)
    return _done(inv.state)


def _expect(machine: Machine, inv: Invocation) -> list[State]:
    for script in values_of(inv.args, "-c"):
        for match in re.finditer(r"\b(?:spawn|exec|system)\s+([^\n;]+)", script):
            machine.run_child(match.group(1), inv)
    return _done(inv.state)


def _remote(machine: Machine, inv: Invocation) -> list[State]:
    """ssh: another machine's folders are nobody's worktree."""
    _, rest = leading(inv.args, "-b -c -D -E -e -F -I -i -J -L -l -m -O -o -p -Q -R -S -W -w -B")
    if len(rest) > 1:
        state = inv.state.copy()
        state.cwd = None
        machine.run_child(" ".join(rest[1:]), Invocation(inv.argv, state, inv.env))
    return _done(inv.state)


def _option_code(machine: Machine, inv: Invocation) -> list[State]:
    """`su -c CODE`, `script -c CODE`, `runuser -c CODE`, `watch CODE`."""
    words = plain_list(inv.args)
    if inv.name == "watch":
        _, rest = leading(words, "-n --interval")
        code: str | None = " ".join(rest)
    else:
        code = next(iter(values_of(words, "-c --command --session-command", "-s -g -G -w -o -t -u -l")), None)
        if code is None and "--" in words:
            code = " ".join(words[words.index("--") + 1 :])
    return machine.run_child(code, inv) if code else _done(inv.state)


def _later(machine: Machine, inv: Invocation) -> list[State]:
    """`at`, `batch`, `crontab`: what they are given runs later."""
    text = inv.state.stdin
    files = values_of(inv.args, "-f", "-t -q -u") if inv.name != "crontab" else operands(inv.args, "-u")
    if files and files[0] not in ("-", "/dev/stdin"):
        text = machine.read_file(files[0], inv.state)
    elif inv.name == "crontab" and (not files or set(inv.args) & {"-l", "-r", "-e"}):
        return _done(inv.state)
    for line in text.split("\n"):
        line = line.replace(HOLE, " ").strip()
        if inv.name == "crontab":
            match = re.match(r"(?:@\w+|(?:[\d*/,-]+\s+){5}|\S+\s+\S+\s+\S+\s+\S+\s+\S+\s)\s*(.+)", line)
            line = match.group(1) if match else ""
        if line and not line.startswith("#"):
            machine.run_child(line, inv)
    return _done(inv.state)


NESTED: dict[str, Handler] = {
    **dict.fromkeys(("sh", "bash", "zsh", "ksh", "dash", "ash", "mksh", "fish", "rbash", "yash", "posh"), _shell),
    **dict.fromkeys(("su", "runuser", "script", "watch"), _option_code),
    **dict.fromkeys(("at", "batch", "crontab"), _later),
    **dict.fromkeys(("vim", "vi", "nvim", "ex", "view", "gvim"), _editor),
    **dict.fromkeys(("make", "gmake"), _make),
    "sed": _sed,
    "gsed": _sed,
    "tar": _tar,
    "gtar": _tar,
    "bsdtar": _tar,
    "ssh": _remote,
    "expect": _expect,
}
