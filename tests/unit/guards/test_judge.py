"""The guards as the dispatcher meets them: which calls they judge, and that they never raise."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import NoReturn

import pytest

from agent_harness.events import JsonValue
from agent_harness.guards import default_guards
from agent_harness.messages import ToolCall
from agent_harness.verdict import ALLOW, Decision
from tests.fakes.data_world import DataWorld
from tests.fakes.judging import GUARDS, refused, verdict


def _judge(name: str, arguments: dict[str, JsonValue] | str, world: DataWorld | None = None) -> list[Decision]:
    call = ToolCall("call_1", name, arguments)
    return [guard.judge(call, world or DataWorld()).decision for guard in GUARDS]


def test_the_guards_are_the_rm_and_the_push_guard() -> None:
    assert [guard.name for guard in default_guards()] == ["guard:rm", "guard:push"]


@pytest.mark.parametrize("tool", ["read_file", "edit_file", "ripgrep", "list_files", "TodoWrite", "tree_sitter_symbols", "other"])
def test_other_tools_pass_whatever_their_text_says(tool: str) -> None:
    call = ToolCall("call_1", tool, {"command": "rm -rf /", "path": "/etc", "new_text": "git push origin main"})
    assert [guard.judge(call, DataWorld()) for guard in GUARDS] == [ALLOW, ALLOW]


def test_calls_without_a_command_pass() -> None:
    assert _judge("run_shell", {"job": "1", "action": "log"}) == [Decision.ALLOW, Decision.ALLOW]
    assert _judge("run_shell", "not an object") == [Decision.ALLOW, Decision.ALLOW]


@pytest.mark.parametrize("command", [7, ["rm", "-rf", "/"], {"a": "b"}, True])
def test_a_command_that_is_no_text_is_refused(command: JsonValue) -> None:
    assert _judge("run_shell", {"command": command}) == [Decision.DENY, Decision.DENY]


@pytest.mark.parametrize("args", ["push origin main", [1], [["x"]], {"0": "x"}])
def test_git_arguments_that_are_no_texts_are_refused(args: JsonValue) -> None:
    assert _judge("git", {"command": "push", "args": args}) == [Decision.DENY, Decision.DENY]


class _BrokenWorld(DataWorld):
    def realpath(self, path: str) -> str:
        raise OSError("gone")

    def is_dir(self, path: str) -> bool:
        raise ValueError("odd")

    def glob(self, pattern: str) -> Sequence[str]:
        raise RuntimeError("odd")


@pytest.mark.parametrize("command", ["rm -rf build", "cd build", "rm -f *.o"])
def test_an_exception_inside_refuses_and_says_so(command: str) -> None:
    found = verdict(command, _BrokenWorld())
    assert found.decision is Decision.DENY
    assert "could not analyse" in found.reason
    assert found.instead


def test_a_broken_environment_refuses() -> None:
    class NoEnvironment(dict[str, str]):
        def items(self) -> NoReturn:
            raise OSError("gone")

    assert refused("ls", DataWorld(env=NoEnvironment()))


@pytest.mark.parametrize(
    "line",
    [
        "echo " + "x" * 1_000_000,
        "echo " + "x " * 500_000,
        "cd a; " * 170_000,
        "(" * 1_000_000,
        "$(" * 60_000,
        "echo " + "{a,b}" * 25,
        "if a; then X=$X1; fi; " * 3_000,
        "a && " * 12_000 + "b",
        "cat <<E\nx\nE\n" * 4_000,
        "X=" + "a*" * 200 + "; echo ${X#*a*a*a*a*a*a*a*a*a*b}",
        "f() { f x$1; f y$1; }; f",
        "for a in 1 2 3 4 5 6 7 8 9; do " * 8 + "rm $a; " + "done; " * 8,
        "bash -c '" * 50,
        "rm " + "*?" * 20_000,
    ],
    ids=range(14),
)
def test_a_monstrous_line_is_answered_within_a_second_a_guard(line: str) -> None:
    for guard in GUARDS:
        began = time.process_time()
        guard.judge(ToolCall("call_1", "run_shell", {"command": line}), DataWorld())
        assert time.process_time() - began < 1


def test_a_long_heredoc_is_no_long_command() -> None:
    assert not refused("cat > notes.md <<'E'\n" + "some text about rm -rf /\n" * 4_000 + "E\n")


def test_importing_the_guards_loads_no_parser() -> None:
    import subprocess

    code = "import sys, agent_harness.guards as g; g.default_guards(); print('tree_sitter' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "False"
