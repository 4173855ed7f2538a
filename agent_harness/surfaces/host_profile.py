"""The `host` surface's profile: the machine's own file system, read-only, with what is private masked and one folder writable.

Masks are mounts, so order counts: first the machine, then what hides parts of it, then what is shown again inside of those, last
the worktree and what is read-only or hidden in it. A mount point can be neither removed nor renamed from inside.
"""

from __future__ import annotations

import os
import pwd
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from agent_harness.errors import ConfigError
from agent_harness.surfaces import bwrap
from agent_harness.surfaces.checkout import Checkout
from agent_harness.surfaces.paths import Denied, decode
from agent_harness.surfaces.tree import Tree

TOOLS = "/run/agent-harness"
TEMPORARY = ("/tmp", "/var/tmp", "/run", "/var/run")
HOMES = ("/home", "/root")
SYSTEM_SECRETS = (
    *("shadow", "shadow-", "gshadow", "gshadow-", "sudoers", "sudoers.d", "ssl/private", "ssh/ssh_host_*_key", "wireguard"),
    *("NetworkManager/system-connections", "kubernetes/*", "docker/key.json", "ppp/*-secrets", "krb5.keytab"),
)
"""Below `/etc`. Only root can read them; for a person who is root they are masked."""
STARTUP = (
    *(".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".profile", ".zshrc", ".zshenv", ".zprofile", ".zlogin"),
    *(".gitconfig", ".netrc", ".npmrc", ".pypirc", ".inputrc", ".vimrc", ".tmux.conf"),
)
"""Files of the home that programs obey. Empty and read-only inside, so that a write to one fails and does not get lost."""
PASSED_ON = re.compile(
    r"LANG|LANGUAGE|LC_\w+|TZ|JAVA_HOME|JDK_HOME|NVM_DIR|NVM_BIN|PYENV_ROOT|RBENV_ROOT|RUSTUP_HOME|RUSTUP_TOOLCHAIN|CARGO_HOME|GOPATH"
    r"|GOROOT|VIRTUAL_ENV|CONDA_PREFIX|SDKMAN_DIR|VOLTA_HOME|SSL_CERT_FILE|SSL_CERT_DIR|NODE_EXTRA_CA_CERTS|REQUESTS_CA_BUNDLE"
    r"|(?:https?|ftp|all|no)_proxy",
    re.IGNORECASE,
)
"""Variables of the person that say where things are. A proxy's URL that holds a password is not passed on."""
MAX_MASKED = 2_000  # mounts of three words each; bubblewrap takes at most 9,000 words
CREDENTIAL_IN_CONFIG = re.compile(rb"(?<=://)[^/@\s\"]+@|(?im:^[ \t]*extraheader\s*=.*$)")


@dataclass(frozen=True)
class HostProfile:
    """What one sandbox on the person's checkout is given.

    Attributes:
        checkout: the worktree is writable at its real path, its repository is not.
        home: the person's; so is what `pwd` calls their home.
        private: more folders that nothing inside may see: the session folder, AGENT_HARNESS_HOME.
        empty: an empty file of the session, and an empty folder: what a masked path shows.
        denied: files and folders in the worktree to mask, relative.
        read_only: `.git` entries in the worktree, relative.
        config: a copy of the repository's configuration without credentials, when it has any.
        environ: the person's environment.
        init: the first program is process 1 itself.
    """

    checkout: Checkout
    home: Path
    private: tuple[Path, ...]
    empty: tuple[Path, Path]
    environ: Mapping[str, str]
    denied: tuple[bytes, ...] = ()
    read_only: tuple[bytes, ...] = (b".git",)
    config: Path | None = None
    init: bool = True

    @property
    def tools(self) -> str:
        """Folder of programs of ours inside."""
        return TOOLS

    @property
    def copies(self) -> Sequence[str]:
        """The machine's own `/etc` is there."""
        return ()

    def variables(self) -> Mapping[str, str]:
        """Every variable that a command finds."""
        given = {
            name: value
            for name, value in self.environ.items()
            if PASSED_ON.fullmatch(name) and not (name.lower().endswith("_proxy") and "@" in value)
        }
        return {**bwrap.environment(), **given, **self._places()}

    def _places(self) -> dict[str, str]:
        hidden = [path for path in self._hidden() if path.exists()]
        shown = [self.home / name for name in bwrap.TOOLCHAINS] + [self.checkout.root]
        theirs = [
            folder
            for folder in self.environ.get("PATH", "").split(":")
            if folder.startswith("/") and (_below(Path(folder), shown) or not _below(Path(folder), hidden))
        ]
        interpreter = bwrap.own_python(self.home)
        last = [] if interpreter is None else [f"{interpreter}/bin"]
        return {
            "PATH": ":".join(dict.fromkeys([TOOLS, *theirs, "/usr/local/bin", "/usr/bin", "/bin", *last])),
            "HOME": str(self.home),
            "TMPDIR": f"{self.checkout.root}/.agent/tmp",
            "XDG_CACHE_HOME": f"{self.home}/.cache",
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "safe.directory",
            "GIT_CONFIG_VALUE_0": str(self.checkout.root),
        }

    def arguments(self) -> list[str]:
        """Bubblewrap's namespaces and mounts."""
        return [
            *("--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try"),
            *("--die-with-parent", "--new-session", "--cap-drop", "ALL"),
            *(("--as-pid-1",) if self.init else ()),
            *("--ro-bind", "/", "/"),
            *self._masks(),
            *self._shown_again(),
            *bwrap.proc_and_dev(),
            *self._sockets(),
            *self._worktree(),
            *self._tools(),
        ]

    def _hidden(self) -> list[Path]:
        """Folders that are replaced by empty ones, each once, those above first."""
        homes = [self.home, Path(pwd.getpwuid(os.getuid()).pw_dir).resolve(), *map(Path, HOMES)]
        wanted = {Path(path) for path in TEMPORARY if not Path(path).is_symlink()}
        wanted |= {home for home in homes if home != Path("/")} | set(self.private)
        found: list[Path] = []
        for path in sorted(wanted, key=lambda each: len(each.parts)):
            if path.is_dir() and (path == self.home or not _below(path, found)) and not _below(path, [self.checkout.root]):
                found.append(path)
        return found

    def _masks(self) -> list[str]:
        args: list[str] = []
        for path in self._hidden():
            temporary = str(path) in TEMPORARY[:2]
            size = bwrap.MIB if path == Path("/run") else 512 * bwrap.MIB
            args += ["--size", str(size), "--perms", "1777" if temporary else "0700", "--tmpfs", str(path)]
        for name in STARTUP:
            args += ["--ro-bind", str(self.empty[0]), f"{self.home}/{name}"] if self.home.is_dir() else []
        for pattern in SYSTEM_SECRETS:
            for path in Path("/etc").glob(pattern):
                if os.access(path, os.R_OK) and not path.stat().st_mode & stat.S_IROTH:
                    args += ["--ro-bind", str(self.empty[path.is_dir()]), str(path)]
        return args

    def _shown_again(self) -> list[str]:
        """What lies in a hidden folder and is needed, read-only."""
        hidden = self._hidden()
        wanted = [self.home / name for name in bwrap.TOOLCHAINS]
        interpreter = bwrap.own_python(self.home)
        wanted += [] if interpreter is None else [interpreter]
        wanted += [self.checkout.common_dir, self.checkout.git_dir, *_borrowed(self.checkout.common_dir)]
        wanted.append(Path("/etc/resolv.conf").resolve())
        args: list[str] = []
        for path in wanted:
            if path.exists() and not path.is_symlink() and _below(path, hidden) and not _below(path, [self.checkout.root]):
                args += ["--ro-bind", str(path), str(path)]
        return args

    def _sockets(self) -> list[str]:
        """Every socket of the machine that can still be seen: a read-only mount does not keep anybody from connecting."""
        hidden = self._hidden()
        args: list[str] = []
        for path in sorted({*listening(), *_named(self.environ)}):
            where = Path(path)
            elsewhere = [*hidden, Path("/dev"), Path("/proc"), self.checkout.root]
            if not _below(where, elsewhere) and _is_socket(where):
                args += ["--ro-bind", str(self.empty[0]), path]
        return args

    def _worktree(self) -> list[str]:
        root = str(self.checkout.root)
        args = ["--bind", root, root]
        for path in self.read_only:
            args += ["--ro-bind", f"{root}/{os.fsdecode(path)}", f"{root}/{os.fsdecode(path)}"]
        if self.config is not None:
            args += ["--ro-bind", str(self.config), str(self.checkout.common_dir / "config")]
        for path in self.denied:
            args += self._mask(Path(root, os.fsdecode(path)))
        for path in listening():
            if _below(Path(path), [self.checkout.root]) and _is_socket(Path(path)):
                args += ["--ro-bind", str(self.empty[0]), path]
        return args

    def _mask(self, path: Path) -> list[str]:
        """Show nothing there. Of a link, where it leads to is masked, unless that is in the worktree under a name of its own."""
        if path.is_symlink():
            path = path.resolve()
            if not path.exists() or _below(path, [self.checkout.root, *self._hidden()]):
                return []
        return ["--ro-bind", str(self.empty[path.is_dir()]), str(path)]

    def _tools(self) -> list[str]:
        rg = bwrap.find_rg()
        server = Path(__file__).with_name("exec_server.py")
        args = ["--size", str(bwrap.MIB), "--perms", "0755", "--tmpfs", TOOLS, "--ro-bind", str(server), f"{TOOLS}/{server.name}"]
        args += [] if rg is None else ["--ro-bind", rg, f"{TOOLS}/rg"]
        return [*args, "--remount-ro", TOOLS]


def refuse_unusable(checkout: Checkout, home: Path, private: Sequence[Path], *, confined: bool) -> None:
    """Find out whether the session's folder can be told from the checkout, and whether the masks leave anything to work in.

    Raises:
        ConfigError: they would not.
    """
    root = checkout.root
    for folder in private:
        if root.is_relative_to(folder) or folder.is_relative_to(root):
            raise ConfigError(
                f"the checkout {str(root)!r} and {str(folder)!r}, where sessions are kept, lie in each other; set "
                "AGENT_HARNESS_HOME to a folder elsewhere, or use --surface local"
            )
    if confined and home == Path("/"):
        raise ConfigError(
            "HOME is '/', which cannot be hidden from commands; set HOME to a folder of yours, or use --surface local"
        )
    if confined and home.is_relative_to(root):
        raise ConfigError(f"the checkout {str(root)!r} holds your home, which commands must not see; use --surface local")


def to_mask(tree: Tree, denied: Denied) -> tuple[bytes, ...]:
    """Denied files and folders in the worktree, without what lies below one. `.git` is none: it is read-only.

    Raises:
        ConfigError: more of them than mounts can be made.
    """
    by_path = any("/" in glob for glob in denied.globs)
    names: dict[bytes, bool] = {}
    found: set[bytes] = set()
    for path in tree.nodes:
        folder, _, name = path.rpartition(b"/")
        if name not in names:
            names[name] = name.lower() != b".git" and denied(decode(name))
        if folder in found or names[name] or (by_path and name.lower() != b".git" and denied(decode(path))):
            found.add(path)
    top = tuple(path for path in found if path.rpartition(b"/")[0] not in found)
    if len(top) > MAX_MASKED:
        raise ConfigError(f"{len(top):,} files have denied names, and at most {MAX_MASKED:,} can be hidden; use --surface local")
    return top


def without_credentials(config: bytes) -> bytes | None:
    """A git configuration whose URLs and headers hold no credential; None when it has none anyway."""
    clean = CREDENTIAL_IN_CONFIG.sub(b"", config)
    return None if clean == config else clean


def listening() -> list[str]:
    """Paths of the sockets that somebody on this machine has bound."""
    try:
        lines = Path("/proc/net/unix").read_bytes().splitlines()
    except OSError:
        return []
    return [os.fsdecode(path) for line in lines if (path := line[line.find(b" /") + 1 :]).startswith(b"/")]


def _named(environ: Mapping[str, str]) -> Iterator[str]:
    """Sockets that the environment names: of agents, of the desktop's bus, of a container engine."""
    for value in environ.values():
        yield from re.findall(r"(?:^|unix:(?:path=|//)?)(/[^,;\s\0]+)", value)


def _is_socket(path: Path) -> bool:
    with suppress(OSError):
        return stat.S_ISSOCK(path.lstat().st_mode)
    return False


def _below(path: Path, folders: Sequence[Path]) -> bool:
    return any(path.is_relative_to(folder) for folder in folders)


def _borrowed(common_dir: Path) -> list[Path]:
    """Folders of objects that the repository borrows from."""
    try:
        lines = (common_dir / "objects/info/alternates").read_bytes().splitlines()
    except OSError:
        return []
    return [
        (common_dir / "objects" / os.fsdecode(line)).resolve() for line in lines if line.strip() and not line.startswith(b"#")
    ]
