"""Shell completion, worked out from the command line's own parser each time it is asked, so that it never falls behind.

A shell's script hands over the words up to the cursor; what comes back is one candidate a line, with a tab and what it is for the
shells that show that, or `:files` or `:folders` where the shell itself knows best.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol, cast

SHELLS = ("bash", "zsh", "fish")
BREAKS = re.compile("[=:]+")  # bash takes words apart at these
FILES, FOLDERS = ":files", ":folders"
MOST_SESSIONS = 200  # the newest; nobody picks from more
LONGEST_HELP = 70

SCRIPTS = {
    "bash": """# agent-harness in bash: add to ~/.bashrc   source <(agent-harness completion bash)
_agent_harness() {
    local line current=${COMP_WORDS[COMP_CWORD]}
    [[ $current == [=:]* ]] && current=
    COMPREPLY=()
    while IFS= read -r line; do
        case $line in
            :files)
                compopt -o filenames 2>/dev/null
                while IFS= read -r line; do COMPREPLY+=("$line"); done < <(compgen -f -- "$current")
                ;;
            :folders)
                compopt -o filenames 2>/dev/null
                while IFS= read -r line; do COMPREPLY+=("$line"); done < <(compgen -d -- "$current")
                ;;
            *) COMPREPLY+=("$line") ;;
        esac
    done < <(@COMMAND@ completion bash -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -F _agent_harness agent-harness
""",
    "zsh": """#compdef agent-harness
# agent-harness in zsh: add to ~/.zshrc, after compinit   source <(agent-harness completion zsh)
_agent_harness() {
    local line name
    local -a found
    for line in "${(@f)$(@COMMAND@ completion zsh -- "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
        case $line in
            :files) _files ;;
            :folders) _files -/ ;;
            ?*)
                name=${line%%$'\\t'*}
                found+=("${name//:/\\\\:}:${line#*$'\\t'}")
                ;;
        esac
    done
    (( $#found )) && _describe -V agent-harness found
}
compdef _agent_harness agent-harness
""",
    "fish": """# agent-harness in fish: agent-harness completion fish > ~/.config/fish/completions/agent-harness.fish
function __agent_harness
    set -l words (commandline -opc) (commandline -ct)
    for line in (@COMMAND@ completion fish -- $words[2..-1] 2>/dev/null)
        switch $line
            case :files
                __fish_complete_path (commandline -ct)
            case :folders
                __fish_complete_directories (commandline -ct) ''
            case '*'
                printf '%s\\n' $line
        end
    end
end
complete -c agent-harness -f -k -a '(__agent_harness)'
""",
}


class Commands(Protocol):
    """A parser that tells what it takes."""

    def actions(self) -> Sequence[argparse.Action]:
        """Its options and positional arguments, in order."""
        ...


def script(shell: str) -> str:
    """What the shell has to read once, with this very command's place in it: what is found in a repository is never started."""
    return SCRIPTS[shell].replace("@COMMAND@", shlex.join(_this_command()))


def _this_command() -> list[str]:
    own = Path(sys.argv[0])
    if own.name == "agent-harness":
        found = own if own.is_file() else shutil.which("agent-harness")
        if found is not None:
            return [str(Path(found).absolute())]
    return [sys.executable, "-P", "-m", "agent_harness"]  # -P: a package of our name in the current folder is somebody else's


def candidates(parser: Commands, words: Sequence[str], shell: str, home: Path) -> list[str]:
    """What may stand in the place of the last word, one line each as the shell wants it.

    Args:
        parser: of the whole command line.
        words: those after the command's own, up to the cursor; the last one is incomplete and may be empty.
        shell: one of `SHELLS`.
        home: where sessions are kept.
    """
    whole = _glued(words) if shell == "bash" else list(words)
    current = whole[-1] if whole else ""
    place = _Place(parser)
    for word in whole[:-1]:
        place.take(word)
    prefix, found = place.offers(current, home)
    if not found:
        return []
    if found[0][0] in (FILES, FOLDERS):
        return [found[0][0]]
    wanted = current.removeprefix(prefix)
    chosen = [(prefix + word, about) for word, about in found if word.startswith(wanted)]
    if shell == "bash":
        cut = len(current) - len(_bash_word(words))
        return [word[cut:] for word, _ in chosen]
    return [f"{word}\t{about}" for word, about in chosen]


def _glued(words: Sequence[str]) -> list[str]:
    """The words as they were typed: bash sets `=` and `:` apart from what stands around them."""
    whole: list[str] = []
    glue = False
    for word in words:
        if BREAKS.fullmatch(word) and whole:
            whole[-1] += word
            glue = True
        elif glue:
            whole[-1] += word
            glue = False
        else:
            whole.append(word)
    return whole


def _bash_word(words: Sequence[str]) -> str:
    """The part of the current word that bash puts a candidate in the place of."""
    last = words[-1] if words else ""
    return "" if BREAKS.fullmatch(last) else last


class _Place:
    """Where in the command line we are, word after word."""

    def __init__(self, parser: Commands) -> None:
        self._enter(parser)
        self._only_positional = False
        self._waiting: argparse.Action | None = None

    def _enter(self, parser: Commands) -> None:
        actions = parser.actions()
        self._options = {name: each for each in actions for name in each.option_strings if each.help != argparse.SUPPRESS}
        self._positional = [each for each in actions if not each.option_strings]
        self._used: set[str] = set()

    def take(self, word: str) -> None:
        """A whole word stands there."""
        if self._waiting is not None:
            self._waiting = None
        elif word == "--" and not self._only_positional:
            self._only_positional = True
        elif word.startswith("-") and word != "-" and not self._only_positional:
            name, equals, _ = word.partition("=")
            option = self._options.get(name)
            if option is not None:
                self._used.add(option.dest)
                self._waiting = None if equals or option.nargs == 0 else option
        elif self._positional:
            chosen = self._positional.pop(0)
            commands = _commands(chosen)
            if commands is not None:
                if word in commands:
                    self._enter(commands[word])
                else:
                    self._options, self._positional = {}, []

    def offers(self, current: str, home: Path) -> tuple[str, list[tuple[str, str]]]:
        """A prefix that stays, and the words that may come after it, each with what it is."""
        if self._waiting is not None:
            return "", _values(self._waiting, home)
        if current.startswith("-") and not self._only_positional:
            name, equals, _ = current.partition("=")
            if equals:
                option = self._options.get(name)
                return f"{name}=", [] if option is None or option.nargs == 0 else _values(option, home)
            return "", self._option_words()
        found = _values(self._positional[0], home) if self._positional else []
        return "", found or ([] if current or self._only_positional else self._option_words())

    def _option_words(self) -> list[tuple[str, str]]:
        found: list[tuple[str, str]] = []
        for name, action in self._options.items():
            again = isinstance(action, argparse._AppendAction)  # pyright: ignore[reportPrivateUsage] - it has no public name
            if name.startswith("--") and (again or action.dest not in self._used):
                found.append((name, _about(action.help)))
        return found


def _commands(action: argparse.Action) -> Mapping[str, Commands] | None:
    return cast("Mapping[str, Commands]", action.choices) if isinstance(action.choices, Mapping) else None


def _values(action: argparse.Action, home: Path) -> list[tuple[str, str]]:
    """What an option or a positional argument may be."""
    commands = _commands(action)
    if commands is not None:
        return [(name, _about(getattr(command, "description", ""))) for name, command in commands.items()]
    if action.choices is not None:
        return [(str(choice), "") for choice in action.choices]
    metavar = action.metavar if isinstance(action.metavar, str) else ""
    if "|" in metavar:
        return [(word, "") for word in metavar.split("|")]
    if metavar == "SESSION":
        return [(word, "") for word in session_ids(home)]
    return [(FILES, "")] if metavar in ("FILE", "GLOB") else [(FOLDERS, "")] if metavar == "REPO" else []


def _about(text: str | None) -> str:
    line = " ".join((text or "").split()).replace("%%", "%")
    return line if len(line) <= LONGEST_HELP else line[: LONGEST_HELP - 3].rstrip() + "..."


def session_ids(home: Path) -> list[str]:
    """`last` and the ids of the newest sessions; the traces are not opened."""
    try:
        names = sorted(os.listdir(home / "sessions"), reverse=True)  # noqa: PTH208 - names alone, of perhaps thousands
    except OSError:
        return []
    there = [name for name in names[:MOST_SESSIONS] if (home / "sessions" / name / "trace.jsonl").exists()]
    return ["last", *there] if there else []
