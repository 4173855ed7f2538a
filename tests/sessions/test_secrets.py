"""Planted secrets reach neither the sandbox, the trace, the model, the pull request nor the output."""

from __future__ import annotations

import base64
import subprocess
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from agent_harness import build
from agent_harness.demo.script import call, in_order, say
from agent_harness.demo.server import ScriptedEndpoint
from agent_harness.errors import ConfigError
from tests.fakes.git_http import GitHttp
from tests.sessions.rig import Rig, make_origin

pytestmark = pytest.mark.anyio

IN_ENVIRONMENT = "sesame-environment-4711-planted"
IN_DOTENV = "sesame-dotenv-4712-planted"
IN_SSH = "sesame-ssh-4713-planted"
IN_URL = "sesame-url-4714-planted"
ALL = (IN_ENVIRONMENT, IN_DOTENV, IN_SSH, IN_URL)

# What a nosy agent would look at: its environment, every file it can read, other processes, the history.
LOOK_EVERYWHERE = (
    "env; cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr '\\0' '\\n'; "
    "find / -xdev -type f -size -64k -not -path '/proc/*' -not -path '/sys/*' -not -path '/usr/*' 2>/dev/null "
    "| head -5000 | xargs -d '\\n' cat 2>/dev/null; cat .env ~/.ssh/* 2>/dev/null"
)
LOOK_IN_HISTORY = (
    "git show HEAD:.env; git rev-list --objects --all | cut -d' ' -f1 | git cat-file --batch 2>/dev/null; git config -l; true"
)


@pytest.fixture
def planted(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Rig:
    """Secrets where people have them. The `.env` is committed, so it is in the history too."""
    files = {"greet.py": "def greet(name):\n    return 'hey ' + name\n", ".env": f"PASSWORD={IN_DOTENV}\n"}
    rig = Rig(tmp_path, make_origin(tmp_path, files))
    monkeypatch.setenv("DEPLOY_TOKEN", IN_ENVIRONMENT)
    rig.environ["DEPLOY_TOKEN"] = IN_ENVIRONMENT
    (home / ".ssh").mkdir()
    (home / ".ssh" / "id_rsa").write_text(f"{IN_SSH}\n")
    return rig


def everything_below(folder: Path) -> Iterator[tuple[Path, bytes]]:
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            yield path, path.read_bytes()


async def test_no_planted_secret_leaves_its_place(planted: Rig, capfd: pytest.CaptureFixture[str]) -> None:
    ended = await planted.run(
        in_order(
            call("run_shell", {"command": LOOK_EVERYWHERE, "timeout_s": 100}),
            call("run_shell", {"command": LOOK_IN_HISTORY}),
            call("read_file", {"path": ".env"}),
            call("ripgrep", {"query": "sesame", "include_ignored": True}),
            call("git", {"command": "show", "args": ["HEAD:.env"]}),
            call("git", {"command": "log", "args": ["-p"]}),
            call("run_shell", {"command": f"echo my own note: {IN_ENVIRONMENT} >> greet.py; echo {IN_ENVIRONMENT}"}),
            call("edit_file", {"path": "greet.py", "old_text": "'hey '", "new_text": "'Good day, '"}),
            say(f"Done; by the way, the token is {IN_ENVIRONMENT}."),
        )
    )
    assert planted.session is not None
    folder = planted.session.folder
    # The model typed one secret itself: the scripted endpoint knows it. Everything else must never have been sent.
    for request in planted.requests:
        sent = request.raw.decode()
        for secret in (IN_DOTENV, IN_SSH, IN_URL, IN_ENVIRONMENT):
            assert secret not in sent, f"request {request.number}"
    for path, content in everything_below(folder):
        if "base.git" in path.parts or path.name == "greet.py":
            continue
        for secret in ALL:
            assert secret.encode() not in content, path
    out, err = capfd.readouterr()
    assert not any(secret in out + err + ended.summary for secret in ALL)


def test_the_same_look_without_a_sandbox_finds_what_was_planted(planted: Rig, home: Path) -> None:
    """The control: run on the bare machine, in a plain clone, the same commands find the secrets."""
    clone = planted.folder / "plain"
    subprocess.run(["git", "clone", "-q", str(planted.origin), str(clone)], check=True, capture_output=True)
    narrow = LOOK_EVERYWHERE.replace("find /", f"find {clone} {home}")
    found = subprocess.run(["bash", "-c", narrow + "; " + LOOK_IN_HISTORY], cwd=clone, capture_output=True, check=False)
    for secret in (IN_ENVIRONMENT, IN_DOTENV, IN_SSH):
        assert secret.encode() in found.stdout, secret


async def test_credentials_in_the_origins_url_stay_in_this_process(planted: Rig, capfd: pytest.CaptureFixture[str]) -> None:
    """A whole session over HTTP; the URL's password is seen by the server, and nowhere else."""
    argvs: set[str] = set()
    with GitHttp(planted.folder, "ann", IN_URL) as server:
        url = f"http://ann:{IN_URL}@127.0.0.1:{server.port}/origin.git"
        watcher = Thread(target=watch_arguments, args=(argvs,))
        watcher.start()
        try:
            ended = await planted.run(
                in_order(
                    call("run_shell", {"command": LOOK_IN_HISTORY + "; git remote -v; env"}),
                    call("edit_file", {"path": "greet.py", "old_text": "'hey '", "new_text": "'Good day, '"}),
                    say("Done."),
                ),
                repo=url,
            )
        finally:
            argvs.add("stop")
            watcher.join()
    assert ended.outcome == "succeeded", ended.summary
    assert planted.pushed()
    assert any("git-receive-pack" in seen for seen in server.seen), "the control: it was pushed over HTTP, with the password"
    assert any("/origin.git" in argv for argv in argvs), "the control: git was seen while it ran"
    spelled = (IN_URL, base64.b64encode(f"ann:{IN_URL}".encode()).decode())
    assert planted.session is not None
    said = "".join(capfd.readouterr())
    for secret in spelled:
        assert not [argv for argv in argvs if secret in argv]
        assert not [path for path, content in everything_below(planted.session.folder) if secret.encode() in content]
        assert not [request.number for request in planted.requests if secret in request.raw.decode()]
        assert secret not in said + ended.summary


def watch_arguments(seen: set[str]) -> None:
    """Collect the command line of every process of this machine until `stop` is put among them."""
    while "stop" not in seen:
        see_arguments(seen)


def see_arguments(seen: set[str]) -> None:
    """One look."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            seen.add(path.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace"))
        except OSError:
            continue


def test_the_same_url_given_to_git_itself_is_seen_in_its_arguments(planted: Rig) -> None:
    """The control of the control: a naive clone shows the password to every process."""
    argvs: set[str] = set()
    with GitHttp(planted.folder, "ann", IN_URL) as server:
        watcher = Thread(target=watch_arguments, args=(argvs,))
        watcher.start()
        url = f"http://ann:{IN_URL}@127.0.0.1:{server.port}/origin.git"
        subprocess.run(["git", "clone", "-q", url, str(planted.folder / "naive")], check=True, capture_output=True)
        argvs.add("stop")
        watcher.join()
    assert any(IN_URL in argv for argv in argvs)
    assert IN_URL in (planted.folder / "naive" / ".git" / "config").read_text()


async def test_a_refused_url_is_told_without_its_password(planted: Rig) -> None:
    with GitHttp(planted.folder, "ann", "another") as server, ScriptedEndpoint(in_order()) as endpoint:
        settings = planted.settings(endpoint, repo=f"http://ann:{IN_URL}@127.0.0.1:{server.port}/origin.git")
        with pytest.raises(ConfigError) as refused:
            await build.prepare(settings, lambda _text: None)
    assert IN_URL not in str(refused.value)
    assert "127.0.0.1" in str(refused.value)
    assert not list(planted.folder.glob("home/sessions/*"))
