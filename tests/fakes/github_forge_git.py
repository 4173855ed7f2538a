"""Smart HTTP for the stand-in: git's own `http-backend`, with GitHub's words when it refuses."""

from __future__ import annotations

import gzip
import os
import re
import subprocess
from dataclasses import dataclass, field

from tests.fakes.github_forge_rules import Command, read_commands, refusal
from tests.fakes.github_forge_state import Repo, Token

PATH = re.compile(r"/(?P<full>[^/]+/[^/]+?)(?:\.git)?/(?P<rest>info/refs|git-upload-pack|git-receive-pack|HEAD|objects/.*)")


@dataclass
class Answer:
    """One HTTP answer. `cut_after`: so many bytes of the body are sent, then the connection is closed."""

    status: int
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict[str, str])
    cut_after: int | None = None


def plain(status: int, text: str) -> Answer:
    """An answer whose text git shows to its user behind `remote:`."""
    return Answer(status, text.encode(), {"Content-Type": "text/plain; charset=utf-8"})


def unauthorized(text: str) -> Answer:
    answer = plain(401, text)
    answer.headers["WWW-Authenticate"] = 'Basic realm="GitHub"'
    return answer


def is_write(rest: str, query: str) -> bool:
    return rest == "git-receive-pack" or "service=git-receive-pack" in query


def serve(repo: Repo, method: str, rest: str, query: str, headers: dict[str, str], body: bytes, token: Token | None) -> Answer:
    """What git's own server says, unless the push holds what GitHub refuses."""
    login = "nobody" if token is None else token.login
    if rest != "git-receive-pack":
        return _backend(repo, method, rest, query, headers, body, login)
    commands, pack = read_commands(gzip.decompress(body) if headers.get("content-encoding") == "gzip" else body)
    refused = refusal(repo, token, commands, pack)
    if refused is not None:
        return _report(commands, refused.ref, refused.lines, refused.why)
    before = {command.ref: repo.sha(command.branch) for command in commands if command.branch}
    answer = _backend(repo, method, rest, query, headers, body, login)
    for ref, old in before.items():
        now = repo.sha(ref.removeprefix("refs/heads/"))
        if now is not None and now != old:
            repo.updates.append((ref, now))
    repo.after_push()
    return answer


def _backend(repo: Repo, method: str, rest: str, query: str, headers: dict[str, str], body: bytes, login: str) -> Answer:
    config = {"http.receivepack": "true", "receive.hideRefs": "refs/pull", "receive.fsckObjects": "true", "gc.auto": "0"}
    env = {
        "PATH": os.environ["PATH"],
        "GIT_PROJECT_ROOT": str(repo.bare.parent),
        "GIT_HTTP_EXPORT_ALL": "1",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_COUNT": str(len(config)),
        "LC_ALL": "C.UTF-8",
        "REMOTE_USER": login,
        "REQUEST_METHOD": method,
        "PATH_INFO": f"/{repo.bare.name}/{rest}",
        "QUERY_STRING": query,
        "CONTENT_TYPE": headers.get("content-type", ""),
        "CONTENT_LENGTH": str(len(body)),
        "HTTP_CONTENT_ENCODING": headers.get("content-encoding", ""),
        "GIT_PROTOCOL": headers.get("git-protocol", ""),
    }
    for number, (key, value) in enumerate(config.items()):
        env[f"GIT_CONFIG_KEY_{number}"], env[f"GIT_CONFIG_VALUE_{number}"] = key, value
    done = subprocess.run(["git", "http-backend"], input=body, env=env, capture_output=True, check=False)
    head, _, content = done.stdout.partition(b"\r\n\r\n")
    found = dict(line.split(": ", 1) for line in head.decode().split("\r\n") if ": " in line)
    return Answer(int(found.pop("Status", "200").split(" ")[0]), content, found)


def _report(commands: list[Command], refused: str, lines: tuple[str, ...], why: str) -> Answer:
    """The report of a push that is refused as a whole."""
    status = [_line("unpack ok\n")]
    status += [_line(f"ng {each.ref} {why if each.ref == refused else 'atomic transaction failed'}\n") for each in commands]
    report = b"".join(status) + b"0000"
    if any("side-band-64k" in command.capabilities for command in commands):
        said = "".join(f"{line}\n" for line in lines).encode()
        report = (_line(b"\x02" + said) if said else b"") + _line(b"\x01" + report) + b"0000"
    return Answer(200, report, {"Content-Type": "application/x-git-receive-pack-result", "Cache-Control": "no-cache"})


def _line(data: str | bytes) -> bytes:
    raw = data.encode() if isinstance(data, str) else data
    return f"{len(raw) + 4:04x}".encode() + raw
