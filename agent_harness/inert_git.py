"""git on this machine, inert: the one runner for every git call that the harness itself makes.

The environment of each call is built from nothing, so that no file of the person, the machine or a repository decides what
runs: no hook, filter, fsmonitor, alias, pager, external diff, ssh command, credential helper or include. A repository is always
named by `--git-dir`; a transport is allowed only for the one call that is given it, and its credentials are in the environment
of that one process, bound to the origin's scheme, host and port: never in an argv, a `.git/config` or an error.

Driver names are chosen by whoever writes a repository, so no list of switches makes it safe to work in one: only plumbing that
runs no driver is let through here, nothing that looks at a work tree, and callers use repositories that the harness made.
"""

from __future__ import annotations

import os
import resource
import shutil
import signal
import sys
from collections.abc import Callable, Container, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import IO
from urllib.parse import urlsplit

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream, Process

from agent_harness.errors import ConfigError, HarnessError
from agent_harness.processes import start_whole
from agent_harness.progress import GitProgress, Step
from agent_harness.transport import Transport

__all__ = ["HOSTILE", "TRUSTED", "Ceilings", "Git", "GitFailed", "GitResult", "RemoteRefs", "Transport"]

MAX_STDOUT_BYTES = 64 << 20  # of one call, in memory; larger answers go to `stdout_file`
MAX_STDERR_BYTES = 256 << 10  # the end is kept: git says last why it failed

# Oddities in old, honest histories that would fail a clone; none of them can do harm in a repository without a work tree.
HARMLESS_FSCK = (
    "badDateOverflow", "badEmail", "badName", "badTimezone", "missingEmail", "missingNameBeforeEmail", "missingSpaceBeforeDate",
    "missingSpaceBeforeEmail", "missingTaggerEntry", "zeroPaddedDate", "zeroPaddedFilemode",
)  # fmt: skip

# What may be run: nothing here reads a work tree, or runs a filter, textconv or diff driver, without an option that is refused.
SUBCOMMANDS = frozenset({
    "branch", "bundle", "cat-file", "check-ref-format", "clone", "commit-tree", "config", "count-objects", "diff-tree",
    "fast-import", "fetch", "for-each-ref", "fsck", "hash-object", "index-pack", "init", "log", "ls-remote", "ls-tree",
    "merge-base", "mktree", "pack-objects", "pack-refs", "push", "remote", "repack", "rev-list", "rev-parse", "show", "show-ref",
    "symbolic-ref", "tag", "unpack-objects", "update-ref", "var", "verify-pack", "version", "write-tree",
})  # fmt: skip
# These look at a work tree, so they run only from a repository of ours whose configuration is one of `PRIVATE_CONFIGS`: a
# `.gitattributes` can name a driver there, but one without a configured command is nothing, and only git's own conversions of
# line ends and encodings act. Hooks are off as for all. Submodules have configurations of their own and are not entered.
IN_WORK_TREE = frozenset({"check-attr", "diff-files", "ls-files", "update-index"})
PRIVATE_CONFIGS = {
    "sha1": "[core]\n\trepositoryformatversion = 0\n\tbare = false\n",
    "sha256": "[core]\n\trepositoryformatversion = 1\n\tbare = false\n[extensions]\n\tobjectformat = sha256\n",
}
SHOWS_DIFFS = frozenset({"diff-tree", "log", "show"})  # always told to run no driver
REFUSED_OPTIONS = frozenset(
    {
        *("--ext-diff", "--textconv", "--filters", "--path", "--upload-pack", "--receive-pack", "--exec", "--template"),
        *("--recurse-submodules", "--ignore-submodules"),
    }
)

CONFIG: tuple[tuple[str, str], ...] = (
    ("core.hooksPath", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("core.untrackedCache", "false"),
    ("core.sshCommand", "/bin/false"),
    ("core.askPass", "/bin/false"),
    ("core.pager", "cat"),
    ("core.editor", "/bin/false"),
    ("core.attributesFile", "/dev/null"),
    ("core.excludesFile", "/dev/null"),
    ("core.symlinks", "false"),
    ("core.alternateRefsCommand", "/bin/true"),
    ("core.packedGitWindowSize", "32m"),
    ("core.packedGitLimit", "512m"),
    ("credential.helper", ""),
    ("push.recurseSubmodules", "no"),
    ("push.followTags", "false"),
    ("push.gpgSign", "false"),
    ("fetch.recurseSubmodules", "no"),
    ("submodule.recurse", "false"),
    ("commit.gpgSign", "false"),
    ("tag.gpgSign", "false"),
    ("log.showSignature", "false"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("init.templateDir", ""),
    ("transfer.fsckObjects", "true"),
    ("transfer.credentialsInUrl", "die"),
    ("safe.bareRepository", "explicit"),
    ("http.followRedirects", "false"),
    *((f"fetch.fsck.{name}", "ignore") for name in HARMLESS_FSCK),
)


class GitFailed(HarnessError):
    """A git call on this machine ended badly.

    Attributes:
        code: its exit code; negative for a signal.
        stderr: what it said, credentials removed.
        timed_out: it was ended because its time was up; what it did on a remote is unknown.
    """

    exit_code = 5
    reason = "git"

    def __init__(self, message: str, *, code: int, stderr: str, timed_out: bool = False) -> None:
        super().__init__(message)
        self.code = code
        self.stderr = stderr
        self.timed_out = timed_out


@dataclass(frozen=True, slots=True)
class GitResult:
    """How a call ended; `stderr` has its credentials removed. `stdout` is empty when it went to a file."""

    code: int
    stdout: bytes
    stderr: str

    @property
    def text(self) -> str:
        """What it answered, as text without the last newline; undecodable bytes as surrogates."""
        return self.stdout.decode("utf-8", "surrogateescape").rstrip("\n")


@dataclass(frozen=True, slots=True)
class RemoteRefs:
    """What a remote has: the short name of its default branch (None when empty or detached) and full ref -> commit id."""

    default_branch: str | None
    refs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Ceilings:
    """Resource limits of one git process and its children: bytes of address space and of one file, seconds of CPU."""

    memory: int = 8 << 30
    file: int = 16 << 30
    cpu_s: int = 900


TRUSTED = Ceilings()
HOSTILE = Ceilings(memory=2 << 30, file=512 << 20, cpu_s=120)  # for what came out of a sandbox


class Git:
    """Runs git with an environment made from nothing.

    Args:
        scratch: a folder of the harness's own; an empty HOME is made in it.
        redact: takes credentials out of what git says.
        environ: where `PATH`, and for a transport the ssh agent, certificates and proxies of the person, are looked up.

    Raises:
        ConfigError: there is no git on this machine.
    """

    def __init__(self, scratch: Path, redact: Callable[[str], str], environ: Mapping[str, str] = os.environ) -> None:
        self._redact = redact
        self._environ = environ
        self._path = ":".join(p for p in environ.get("PATH", "").split(":") if p.startswith("/")) or os.defpath
        self._home = scratch.absolute() / "git-home"
        self._home.mkdir(parents=True, exist_ok=True, mode=0o700)
        found = shutil.which("git", path=self._path)
        if found is None:
            raise ConfigError("there is no git on this machine's PATH; install it (apt install git)")
        self._git = found

    async def run(
        self,
        *args: str,
        git_dir: Path | None = None,
        stdin: bytes = b"",
        stdin_file: Path | None = None,
        stdin_offset: int = 0,
        stdout_file: Path | None = None,
        transport: Transport | None = None,
        timeout_s: float = 120,
        ok: Container[int] = (0,),
        env: Mapping[str, str] | None = None,
        ceilings: Ceilings = TRUSTED,
        work_tree: Path | None = None,
        step: Step | None = None,
    ) -> GitResult:
        """Run git once; the whole process group is ended on timeout and on cancellation.

        Args:
            *args: subcommand and arguments; `transport.safe_url` where git wants the URL (its `url` is replaced by that).
            git_dir: the repository that is meant; always given when one is.
            stdin: given to it, then closed.
            stdin_file: read by it instead of `stdin`.
            stdin_offset: the byte of `stdin_file` to start from.
            stdout_file: gets its output instead of memory; made with mode 0600, replaced when it exists.
            transport: the one remote that it may speak to; without it none.
            timeout_s: seconds until it is ended.
            ok: exit codes that are an answer.
            env: more variables, for identities and dates of commits (`GIT_AUTHOR_NAME`, ...).
            ceilings: its resource limits.
            work_tree: the folder that a command of `IN_WORK_TREE` looks at.
            step: a fetch or push that git says the progress of, which becomes the step's detail and is no part of `stderr`.

        Raises:
            GitFailed: another exit code, no end in time, or more than 64 MiB of output.
            ValueError: a command or an option that could run something of the repository's choice.
        """
        _refuse_what_could_run(args, git_dir, work_tree)
        place = [] if git_dir is None else [f"--git-dir={git_dir}"]
        words = [transport.safe_url if transport is not None and word == transport.url else word for word in args]
        if args[0] in SHOWS_DIFFS:
            words[1:1] = ["--no-ext-diff", "--no-textconv"]
        if args[0] == "diff-files":
            words[1:1] = ["--no-ext-diff", "--ignore-submodules=all"]
        if step is not None:
            words.insert(1, "--progress")
        environment = {**self._environment(transport, git_dir if work_tree is not None else None), **(env or {})}
        if work_tree is not None:
            environment["GIT_WORK_TREE"] = str(work_tree)
        with ExitStack() as files:
            source: int | IO[bytes] = PIPE if stdin else DEVNULL
            if stdin_file is not None:
                source = files.enter_context(stdin_file.open("rb", buffering=0))
                source.seek(stdin_offset)
            sink: int | IO[bytes] = PIPE
            if stdout_file is not None:
                opened = os.open(stdout_file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
                sink = files.enter_context(os.fdopen(opened, "wb"))
            process = await start_whole(
                lambda: anyio.open_process(
                    [self._git, *place, *words],
                    stdin=source,
                    stdout=sink,
                    stderr=PIPE,
                    cwd="/",
                    env=environment,
                    start_new_session=True,
                )
            )
            _limit(process.pid, ceilings)
            result = await self._finish(process, args[0], stdin, transport, timeout_s, step)
        if result.code not in ok:
            raise self._failure(args[0], result)
        return result

    async def _finish(
        self, process: Process, name: str, stdin: bytes, transport: Transport | None, timeout_s: float, step: Step | None
    ) -> GitResult:
        out = _Kept(MAX_STDOUT_BYTES, head=True)
        err = _Kept(MAX_STDERR_BYTES, head=False, progress=None if step is None else GitProgress(step))
        in_time = False
        try:
            with anyio.move_on_after(timeout_s) as clock:
                async with anyio.create_task_group() as tasks:
                    if process.stdin is not None:
                        tasks.start_soon(_feed, process.stdin, stdin)
                    if process.stdout is not None:
                        tasks.start_soon(out.take, process.stdout)
                    if process.stderr is not None:
                        tasks.start_soon(err.take, process.stderr)
                await process.wait()
                in_time = not out.full
            timed_out = clock.cancelled_caught
        finally:
            with anyio.CancelScope(shield=True):
                if not in_time:
                    _kill_group(process)
                await process.aclose()
        stderr = self._clean(bytes(err.data), transport)
        if timed_out or out.full:
            why = f"did not end within {timeout_s:g} s" if timed_out else f"said more than {MAX_STDOUT_BYTES >> 20} MiB"
            raise GitFailed(f"git {name} {why} and was ended", code=-signal.SIGKILL, stderr=stderr, timed_out=timed_out)
        return GitResult(process.returncode or 0, bytes(out.data), stderr)

    def _failure(self, name: str, result: GitResult) -> GitFailed:
        lines = [line.strip() for line in result.stderr.splitlines() if line.strip()]
        said = next((line for line in lines if line.startswith(("fatal:", "error:"))), lines[-1] if lines else "it said nothing")
        return GitFailed(f"git {name} failed (exit {result.code}): {said}", code=result.code, stderr=result.stderr)

    def _clean(self, stderr: bytes, transport: Transport | None) -> str:
        text = stderr.decode("utf-8", "replace")
        for secret in transport.secrets if transport is not None else ():
            text = text.replace(secret, "[redacted]")
        return self._redact(text)

    def _environment(self, transport: Transport | None, private: Path | None) -> dict[str, str]:
        """All variables of one call.

        In a work tree links are links, or one that became a file would not be noticed; what a person ignores and converts
        everywhere is in the private repository that looks at it.
        """
        config = list(CONFIG)
        if private is not None:
            config += [("core.symlinks", "true"), ("core.attributesFile", f"{private}/attributes")]
            config.append(("core.excludesFile", f"{private}/excludes"))
        env = {
            "PATH": self._path,
            "HOME": str(self._home),
            "XDG_CONFIG_HOME": str(self._home),
            "LC_ALL": "C.UTF-8",
            "TZ": "UTC",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_SYSTEM": "/dev/null",
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_TEMPLATE_DIR": "",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_ASKPASS": "/bin/false",
            "SSH_ASKPASS": "/bin/false",
            "GIT_SSH_COMMAND": "/bin/false",
            "GIT_EDITOR": "/bin/false",
            "GIT_PAGER": "cat",
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_DISCOVERY_ACROSS_FILESYSTEM": "0",
            "GIT_ALLOW_PROTOCOL": "none",
        }
        proxy = ""
        if transport is not None:
            env["GIT_ALLOW_PROTOCOL"] = transport.protocol
            if transport.protocol == "ssh":
                env["GIT_SSH_COMMAND"] = "ssh -o BatchMode=yes -o ConnectTimeout=20"
                self._pass_on(env, "SSH_AUTH_SOCK", "SSH_AUTH_SOCK")
            if transport.protocol == "https":
                self._pass_on(env, "GIT_SSL_CAINFO", "GIT_SSL_CAINFO", "SSL_CERT_FILE")
            if transport.protocol in ("http", "https"):
                proxy = self._proxy(transport)
            if transport.auth is not None and transport.origin:
                config.append((f"http.{transport.origin}/.extraHeader", transport.auth))
        config.append(("http.proxy", proxy))
        env["GIT_CONFIG_COUNT"] = str(len(config))
        for number, (key, value) in enumerate(config):
            env[f"GIT_CONFIG_KEY_{number}"] = key
            env[f"GIT_CONFIG_VALUE_{number}"] = value
        return env

    def _pass_on(self, env: dict[str, str], name: str, *sources: str) -> None:
        value = next((self._environ[source] for source in sources if self._environ.get(source)), None)
        if value is not None:
            env[name] = value

    def _proxy(self, transport: Transport) -> str:
        """The person's proxy for this remote, empty for none; a repository never chooses it."""
        host = urlsplit(transport.origin).hostname or ""
        for entry in (self._environ.get("no_proxy") or self._environ.get("NO_PROXY") or "").split(","):
            name = entry.strip().lstrip(".").lower()
            if name == "*" or (name and (host == name or host.endswith(f".{name}"))):
                return ""
        names = (f"{transport.protocol}_proxy", f"{transport.protocol.upper()}_PROXY", "all_proxy", "ALL_PROXY")
        return next((self._environ[name] for name in names if self._environ.get(name)), "")

    async def ls_remote(self, transport: Transport, *patterns: str, timeout_s: float = 60) -> RemoteRefs:
        """What the remote has, without writing anything anywhere; only refs that match, when patterns are given.

        Raises:
            GitFailed: it could not be reached, or refused us.
        """
        answer = await self.run(
            "ls-remote", "--symref", "--", transport.safe_url, *patterns, transport=transport, timeout_s=timeout_s
        )
        default: str | None = None
        refs: dict[str, str] = {}
        for line in answer.text.split("\n"):
            left, tab, name = line.partition("\t")
            if not tab:
                continue
            if left.startswith("ref: "):
                if name == "HEAD":
                    default = left.removeprefix("ref: ").removeprefix("refs/heads/")
            else:
                refs[name] = left
        return RemoteRefs(default, refs)


def _refuse_what_could_run(args: tuple[str, ...], git_dir: Path | None, work_tree: Path | None) -> None:
    if args and (args[0] in IN_WORK_TREE or work_tree is not None):
        ours = git_dir is not None and (git_dir / "config").read_text("utf-8", "replace") in PRIVATE_CONFIGS.values()
        if not ours or work_tree is None or args[0] not in IN_WORK_TREE:
            raise ValueError(f"git {args[0]} looks at a work tree only from a repository with a configuration of our own")
    elif not args or args[0] not in SUBCOMMANDS:
        raise ValueError(f"{args[:1]} is not a git command of the inert runner; add it only if it can run no driver and no hook")
    for word in args[1 : args.index("--") if "--" in args else None]:
        name, _, value = word.partition("=")
        if name in REFUSED_OPTIONS and (name != "--template" or value):
            raise ValueError(f"{word!r} lets git {args[0]} run something of the repository's choice")


class _Kept:
    """Bytes of a stream, bounded: the head of it, or the tail."""

    def __init__(self, limit: int, *, head: bool, progress: GitProgress | None = None) -> None:
        self.data = bytearray()
        self.full = False
        self._limit = limit
        self._head = head
        self._progress = progress

    async def take(self, stream: ByteReceiveStream) -> None:
        async for piece in stream:
            self.data += piece if self._progress is None else self._progress.take(piece)
            if len(self.data) > self._limit:
                if self._head:
                    self.full = True
                    return
                del self.data[: -self._limit]
        if self._progress is not None:
            self.data += self._progress.close()


async def _feed(stream: ByteSendStream, data: bytes) -> None:
    try:
        await stream.send(data)
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
        return  # it ended without reading all of it; its exit code says why
    finally:
        await stream.aclose()


def _limit(pid: int, ceilings: Ceilings) -> None:
    """Set resource limits from outside: code between fork and exec is unsafe in a process with threads."""
    if sys.platform != "linux":
        return
    wanted = {
        resource.RLIMIT_AS: ceilings.memory,
        resource.RLIMIT_FSIZE: ceilings.file,
        resource.RLIMIT_CPU: ceilings.cpu_s,
        resource.RLIMIT_CORE: 0,
    }
    try:
        for kind, value in wanted.items():
            hard = resource.prlimit(pid, kind)[1]
            bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.prlimit(pid, kind, (bound, bound))
    except ProcessLookupError:
        return  # it has ended already


def _kill_group(process: Process) -> None:
    if process.returncode is None:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            return
