"""The one git runner against a repository that plants commands everywhere, and against servers that listen for the token."""

from __future__ import annotations

import base64
import os
import re
import shlex
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import anyio
import pytest

from agent_harness.errors import ConfigError
from agent_harness.inert_git import Ceilings, Git, GitFailed, Transport

TOKEN = "tok3n+/secret=Value"


@pytest.fixture
def inert(tmp_path: Path) -> Git:
    return Git(tmp_path / "scratch", lambda text: text.replace("hunter2", "[gone]"))


class Trap:
    """A repository whose configuration, attributes and hooks all run a command that leaves a mark."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.marks = folder / "marks"
        self.work = folder / "work"
        self.marks.mkdir(parents=True)
        self.work.mkdir()
        self.plain("init", "-q", "-b", "main")
        for key, value in (("user.name", "a"), ("user.email", "a@example.invalid")):
            self.plain("config", key, value)
        (self.work / "a.txt").write_text("one\n")
        self.plain("add", "a.txt")
        self.plain("commit", "-q", "-m", "base")
        self.plain("clone", "-q", "--bare", str(self.work), str(folder / "origin.git"))
        self.set_up()

    def mark(self, name: str, rest: str = "") -> str:
        return f"touch {shlex.quote(str(self.marks / name))}{rest}"

    def set_up(self) -> None:
        (self.work / ".gitattributes").write_text("*.txt filter=evil diff=evil\n")
        (self.work / ".git" / "info").mkdir(exist_ok=True)
        (self.work / ".git" / "info" / "attributes").write_text("* filter=evil diff=evil\n")
        (self.folder / "included").write_text(f'[alias]\n\tlog-included = "!{self.mark("include-alias")}"\n')
        settings = {
            "core.fsmonitor": self.mark("fsmonitor", "; false"),
            "filter.evil.clean": self.mark("clean", "; cat"),
            "filter.evil.smudge": self.mark("smudge", "; cat"),
            "diff.evil.textconv": self.mark("textconv", "; cat"),
            "diff.external": self.mark("external", "; true"),
            "core.pager": self.mark("pager", "; cat"),
            "core.sshCommand": self.mark("ssh", "; false"),
            "core.hooksPath": str(self.folder / "hooks"),
            "alias.version-evil": "!" + self.mark("alias"),
            "include.path": str(self.folder / "included"),
            "credential.helper": f"!{self.mark('credential')}; true",
            "uploadpack.packObjectsHook": self.mark("packobjects", "; false"),
        }
        for key, value in settings.items():
            self.plain("config", key, value)
        hooks = self.folder / "hooks"
        hooks.mkdir()
        for name in ("pre-commit", "post-checkout", "pre-push", "reference-transaction", "post-index-change", "commit-msg"):
            (hooks / name).write_text(f"#!/bin/sh\n{self.mark(name)}\n")
            (hooks / name).chmod(0o755)

    def plain(self, *args: str) -> None:
        env = {"PATH": os.environ["PATH"], "HOME": str(self.folder), "GIT_TERMINAL_PROMPT": "0"}
        subprocess.run(["git", *args], cwd=self.work, env=env, capture_output=True, check=False)

    def ran(self) -> set[str]:
        found = {path.name for path in self.marks.iterdir()}
        for path in self.marks.iterdir():
            path.unlink()
        return found


@pytest.fixture
def trap(tmp_path: Path) -> Trap:
    return Trap(tmp_path / "trap")


def plain_tour(trap: Trap, url: str) -> None:
    (trap.work / "a.txt").write_text("two\n")
    trap.plain("status")
    trap.plain("add", "-A")
    trap.plain("-c", "diff.external=", "log", "-p")
    trap.plain("diff", "HEAD")
    trap.plain("commit", "-q", "-m", "x")
    trap.plain("checkout", "-q", "-b", "other")
    trap.plain("push", "-q", str(trap.folder / "origin.git"), "HEAD:refs/heads/x")
    trap.plain("ls-remote", "ssh://git@localhost/x")
    trap.plain("ls-remote", url)
    trap.plain("version-evil")
    trap.plain("log-included")
    trap.plain("show")


MISTAKES = (
    *(("status",), ("add", "-A"), ("checkout", "main"), ("diff",), ("archive", "HEAD"), ()),
    *(("version-evil",), ("log-included",), ("-c", "alias.x=!true", "x"), ("--work-tree=/", "status"), ("-p", "rev-parse")),
    *(("cat-file", "--textconv", "HEAD:a.txt"), ("cat-file", "--filters", "HEAD:a.txt"), ("diff-tree", "--ext-diff", "HEAD")),
    *(
        ("read-tree", "-mu", "HEAD"),
        ("hash-object", "--stdin", "--path=a.txt"),
        ("fetch", "--upload-pack=touch x", "--", "."),
        ("push", "--receive-pack=touch x", "--", "."),
    ),
    *(("ls-remote", "--exec=touch x", "--", "."), ("init", "--template=/x", "/y")),
)


async def inert_tour(git: Git, trap: Trap, url: str) -> None:
    """What the harness does with repositories, and what a mistake might ask for."""
    there = trap.work / ".git"
    for args in (
        ("rev-parse", "HEAD"),
        ("diff-tree", "-r", "-z", "--raw", "--numstat", "--root", "HEAD"),
        ("diff-tree", "-r", "-p", "HEAD^", "HEAD"),
        ("log", "-p", "HEAD"),
        ("show", "HEAD"),
        ("show", "HEAD:a.txt"),
        ("rev-list", "--objects", "HEAD"),
        ("cat-file", "-p", "HEAD"),
        ("for-each-ref",),
        ("update-ref", "refs/heads/y", "HEAD"),
        ("commit-tree", "-m", "x", "HEAD^{tree}"),
        ("fsck",),
        ("bundle", "create", str(trap.folder / "x.bundle"), "HEAD"),
    ):
        await git.run(*args, git_dir=there, env={"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example.invalid",
                      "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@example.invalid"})  # fmt: skip
    for args, remote in (
        (("push", "--no-verify", "--", "%", "HEAD:refs/heads/z"), Transport((trap.folder / "origin.git").as_uri())),
        (("ls-remote", "--", "%"), Transport(url)),
        (("fetch", "--", "%", "HEAD"), Transport(there.as_uri())),
    ):
        words = [remote.safe_url if word == "%" else word for word in args]
        await git.run(*words, git_dir=there, transport=remote, ok=range(256))
    await git.ls_remote(Transport(there.as_uri()))
    for words in MISTAKES:
        with pytest.raises(ValueError, match=r"inert runner|of the repository's choice"):
            await git.run(*words, git_dir=there)


@pytest.mark.anyio
async def test_a_hostile_repository_runs_its_commands_in_plain_git_and_none_of_them_here(
    inert: Git, trap: Trap, server: Server
) -> None:
    await anyio.to_thread.run_sync(plain_tour, trap, server.url)
    control = trap.ran()
    assert {"fsmonitor", "clean", "textconv", "external", "ssh", "alias", "include-alias", "credential", "pre-commit"} <= control
    assert {"pre-push", "post-checkout", "commit-msg"} <= control
    await inert_tour(inert, trap, server.url)
    assert trap.ran() == set()


@pytest.mark.anyio
async def test_a_worktree_named_by_the_configuration_is_not_touched(inert: Git, trap: Trap) -> None:
    victim = trap.folder / "victim"
    victim.mkdir()
    (victim / "keep.txt").write_text("mine")
    trap.plain("config", "core.worktree", str(victim))
    head = (await inert.run("rev-parse", "HEAD", git_dir=trap.work / ".git")).text
    await inert.run("cat-file", "-e", head, git_dir=trap.work / ".git")
    assert [path.name for path in victim.iterdir()] == ["keep.txt"]


@pytest.mark.anyio
async def test_nothing_of_the_callers_environment_or_home_is_obeyed(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / ".gitconfig").write_text(f"[alias]\n\tevil = !touch {tmp_path}/ran\n")
    monkeypatch.setenv("GIT_CONFIG_PARAMETERS", f"'alias.evil2=!touch {tmp_path}/ran'")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("GIT_SSH_COMMAND", f"touch {tmp_path}/ran")
    monkeypatch.setenv("GIT_TRACE", str(tmp_path / "trace"))
    git = Git(tmp_path / "scratch", str)
    for name in ("evil", "evil2"):
        assert (await git.run("config", f"alias.{name}", ok=(1,))).text == ""
    await git.run("init", "--quiet", "--bare", str(tmp_path / "r.git"))
    assert sorted(path.name for path in (tmp_path / "r.git").iterdir()) == ["HEAD", "config", "objects", "refs"]
    assert not (tmp_path / "ran").exists()
    assert not (tmp_path / "trace").exists()
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.anyio
async def test_a_repository_that_is_not_named_is_not_found_on_the_way_up(inert: Git, trap: Trap) -> None:
    with pytest.raises(GitFailed, match="not a git repository"):
        await inert.run("rev-parse", "HEAD")


class Server:
    """An HTTP server on loopback that keeps each request's headers and holds the answer back until `let_go`."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.let_go = threading.Event()
        self.headers: list[str | None] = []
        self.answer = (404, {})
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.headers.append(self.headers.get("Authorization"))
                outer.asked.set()
                outer.let_go.wait(20)
                status, headers = outer.answer
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                return

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.answer: tuple[int, dict[str, str]] = (404, {})
        self.url = f"http://127.0.0.1:{self.http.server_port}/r.git"
        self.thread = threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.02})
        self.thread.start()

    def close(self) -> None:
        self.let_go.set()
        self.http.shutdown()
        self.thread.join()
        self.http.server_close()


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    made.let_go.set()
    made.answer = (401, {"WWW-Authenticate": 'Basic realm="r"'})
    yield made
    made.close()


@pytest.fixture
def slow_server() -> Iterator[Server]:
    made = Server()
    yield made
    made.close()


def processes_below(pid: int) -> list[Path]:
    """Every descendant of a process, as its /proc folder."""
    parents: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = stat.read_text()
        except OSError:
            continue
        parents[int(stat.parent.name)] = int(text.rpartition(")")[2].split()[1])
    found: list[int] = [pid]
    for known in found:
        found += [child for child, parent in parents.items() if parent == known]
    return [Path("/proc", str(child)) for child in found[1:]]


SPELLINGS = (TOKEN, base64.b64encode(f"bot:{TOKEN}".encode()).decode(), "tok3n%2B%2Fsecret%3DValue", "tok3n")


@pytest.mark.anyio
async def test_the_token_reaches_the_server_and_no_argv(inert: Git, slow_server: Server, tmp_path: Path) -> None:
    url = slow_server.url.replace("http://", "http://bot:tok3n%2B%2Fsecret%3DValue@")
    await inert.run("init", "--quiet", "--bare", str(tmp_path / "r.git"))
    seen: list[str] = []
    message = ""
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:

            async def look() -> None:
                await anyio.to_thread.run_sync(slow_server.asked.wait, 15)
                folders = processes_below(os.getpid())
                seen.extend((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode() for folder in folders)
                slow_server.let_go.set()

            tasks.start_soon(look)
            with pytest.raises(GitFailed) as failure:
                await inert.run("fetch", "--", url, "main", git_dir=tmp_path / "r.git", transport=Transport(url))
            message = str(failure.value) + failure.value.stderr
    assert slow_server.headers[0] == f"Basic {SPELLINGS[1]}"
    assert any("git-remote-http" in line or "remote-http" in line for line in seen), seen
    written = (tmp_path / "r.git" / "config").read_text() + message + repr(Transport(url)) + " ".join(seen)
    assert not [word for word in SPELLINGS if word in written]
    assert slow_server.url in " ".join(seen)


def test_the_control_plain_git_shows_the_token_in_its_argv(slow_server: Server, tmp_path: Path) -> None:
    url = slow_server.url.replace("http://", f"http://bot:{SPELLINGS[2]}@")
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "GIT_TERMINAL_PROMPT": "0"}
    with subprocess.Popen(["git", "ls-remote", url], env=env, stderr=subprocess.DEVNULL) as process:
        assert slow_server.asked.wait(15)
        seen = b" ".join((folder / "cmdline").read_bytes() for folder in processes_below(os.getpid()))
        slow_server.let_go.set()
        process.wait(15)
    assert SPELLINGS[2].encode() in seen


@pytest.mark.anyio
async def test_a_redirect_to_another_server_does_not_get_the_token(inert: Git, server: Server) -> None:
    other = Server()
    other.let_go.set()
    try:
        server.answer = (302, {"Location": f"{other.url}/info/refs"})
        with pytest.raises(GitFailed):
            await inert.ls_remote(Transport(server.url, header="Authorization: Bearer abc"))
        assert server.headers[0] == "Bearer abc"
        assert other.headers == []
    finally:
        other.close()


@pytest.mark.anyio
async def test_a_missing_token_fails_at_once_instead_of_asking(inert: Git, server: Server) -> None:
    with anyio.fail_after(10), pytest.raises(GitFailed, match=r"could not read Username|askpass|terminal prompts disabled"):
        await inert.ls_remote(Transport(server.url))


@pytest.mark.anyio
async def test_what_git_says_is_redacted(inert: Git, tmp_path: Path) -> None:
    with pytest.raises(GitFailed) as failure:
        await inert.run("cat-file", "-t", "hunter2", git_dir=tmp_path)
    assert "hunter2" not in str(failure.value) + failure.value.stderr
    await inert.run("init", "--quiet", "--bare", str(tmp_path / "r.git"))
    with pytest.raises(GitFailed, match=re.escape("[gone]")):
        await inert.run("cat-file", "-t", "hunter2", git_dir=tmp_path / "r.git")


@pytest.mark.anyio
async def test_only_the_protocol_of_the_call_is_allowed(inert: Git, trap: Trap) -> None:
    url = (trap.folder / "origin.git").as_uri()
    with pytest.raises(GitFailed, match="transport 'file' not allowed"):
        await inert.run("ls-remote", "--", url)
    with pytest.raises(GitFailed, match="transport 'ext' not allowed"):
        await inert.run("ls-remote", "--", "ext::sh -c true", transport=Transport(url))
    refs = await inert.ls_remote(Transport(url))
    assert refs.default_branch == "main"
    assert refs.refs["HEAD"] == refs.refs["refs/heads/main"]
    assert (await inert.ls_remote(Transport(url), "refs/heads/none")).refs == {}


@pytest.mark.anyio
async def test_an_empty_remote_has_no_default_branch(inert: Git, tmp_path: Path) -> None:
    await inert.run("init", "--quiet", "--bare", str(tmp_path / "empty.git"))
    found = await inert.ls_remote(Transport(str(tmp_path / "empty.git")))
    assert (found.default_branch, found.refs) == (None, {})


@pytest.mark.anyio
async def test_the_whole_group_is_ended_on_timeout_and_on_cancellation(inert: Git, slow_server: Server) -> None:
    with pytest.raises(GitFailed, match="did not end within") as failure:
        await inert.ls_remote(Transport(slow_server.url), timeout_s=0.3)
    assert failure.value.timed_out
    slow_server.asked.clear()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(inert.ls_remote, Transport(slow_server.url))
        with anyio.fail_after(15):
            await anyio.to_thread.run_sync(slow_server.asked.wait, 10)
        tasks.cancel_scope.cancel()
    with anyio.fail_after(10):
        while left := [p for p in processes_below(os.getpid()) if b"git" in (p / "cmdline").read_bytes()]:
            assert left
            await anyio.lowlevel.checkpoint()


@pytest.mark.anyio
async def test_stdin_and_stdout_go_by_bytes_and_by_file(inert: Git, tmp_path: Path) -> None:
    repo = tmp_path / "r.git"
    await inert.run("init", "--quiet", "--bare", str(repo))
    data = bytes(range(256)) * 4_000
    by_bytes = await inert.run("hash-object", "-w", "--stdin", git_dir=repo, stdin=data)
    (tmp_path / "in").write_bytes(b"skip" + by_bytes.text.encode() + b"\n")
    by_file = await inert.run("cat-file", "--batch-check", git_dir=repo, stdin_file=tmp_path / "in", stdin_offset=4)
    assert by_file.text == f"{by_bytes.text} blob {len(data)}"
    result = await inert.run("cat-file", "blob", by_bytes.text, git_dir=repo, stdout_file=tmp_path / "out")
    assert result.stdout == b""
    assert (tmp_path / "out").read_bytes() == data
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o600
    assert (await inert.run("cat-file", "blob", by_bytes.text, git_dir=repo)).stdout == data


@pytest.mark.anyio
async def test_a_file_larger_than_the_ceiling_ends_git(inert: Git, tmp_path: Path) -> None:
    repo = tmp_path / "r.git"
    await inert.run("init", "--quiet", "--bare", str(repo))
    with pytest.raises(GitFailed):
        await inert.run("hash-object", "-w", "--stdin", git_dir=repo, stdin=os.urandom(4 << 20), ceilings=Ceilings(file=1 << 20))


@pytest.mark.anyio
async def test_an_exit_code_that_is_an_answer_is_returned(inert: Git, trap: Trap) -> None:
    there = trap.folder / "origin.git"
    assert (await inert.run("cat-file", "-e", "0" * 40, git_dir=there, ok=(0, 1))).code == 1
    with pytest.raises(GitFailed) as failure:
        await inert.run("cat-file", "-e", "0" * 40, git_dir=there)
    assert failure.value.code == 1


@pytest.mark.anyio
async def test_only_a_persons_own_variables_choose_agent_certificates_and_proxy(tmp_path: Path) -> None:
    environ = {"PATH": os.environ["PATH"], "SSH_AUTH_SOCK": "/agent", "https_proxy": "http://proxy:1", "no_proxy": "in.example"}
    git = Git(tmp_path, str, environ)
    out = await git.run("config", "--get-all", "http.proxy", transport=Transport("https://h.example/r"))
    assert out.text == "http://proxy:1"
    assert (await git.run("config", "--get-all", "http.proxy", transport=Transport("https://x.in.example/r"))).text == ""
    assert (await git.run("config", "--get-all", "http.proxy")).text == ""


def test_no_git_on_the_path_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no git on this machine's PATH"):
        Git(tmp_path / "s", str, {"PATH": str(tmp_path)})
