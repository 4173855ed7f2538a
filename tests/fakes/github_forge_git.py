"""Smart HTTP for the stand-in: git's own `http-backend`, with GitHub's words when it refuses."""

from __future__ import annotations

import gzip
import os
import re
import subprocess
from dataclasses import dataclass, field

from tests.fakes.github_forge_state import Repo

PATH = re.compile(r"/(?P<full>[^/]+/[^/]+?)(?:\.git)?/(?P<rest>info/refs|git-upload-pack|git-receive-pack|HEAD|objects/.*)")
COMMAND = re.compile(rb"(?P<old>[0-9a-f]{40}) (?P<new>[0-9a-f]{40}) (?P<ref>[^\0\n]+)(?:\0(?P<capabilities>[^\n]*))?\n?")
ZEROS = b"0" * 40


@dataclass
class Answer:
    """One HTTP answer."""

    status: int
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict[str, str])


def plain(status: int, text: str) -> Answer:
    """An answer whose text git shows to its user behind `remote:`."""
    return Answer(status, text.encode(), {"Content-Type": "text/plain; charset=utf-8"})


def unauthorized(text: str) -> Answer:
    answer = plain(401, text)
    answer.headers["WWW-Authenticate"] = 'Basic realm="GitHub"'
    return answer


def is_write(rest: str, query: str) -> bool:
    return rest == "git-receive-pack" or "service=git-receive-pack" in query


def serve(repo: Repo, method: str, rest: str, query: str, headers: dict[str, str], body: bytes, login: str) -> Answer:
    """What git's own server says, unless the push names a branch that nobody may push to."""
    if rest == "git-receive-pack":
        plain_body = gzip.decompress(body) if headers.get("content-encoding") == "gzip" else body
        refused = _protected(repo, plain_body)
        if refused is not None:
            return refused
    answer = _backend(repo, method, rest, query, headers, body, login)
    if rest == "git-receive-pack":
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


def _protected(repo: Repo, body: bytes) -> Answer | None:
    """The report of a push that is refused for its branches; one refused branch refuses all of it here."""
    commands = list(_commands(body))
    names = [ref.removeprefix("refs/heads/") for ref, _ in commands if ref.startswith("refs/heads/")]
    refused = {f"refs/heads/{name}" for name in names if repo.is_protected(name)}
    if not refused:
        return None
    first = sorted(refused)[0]
    said = f"error: GH006: Protected branch update failed for {first}.\n"
    said += "error: \nerror: - Changes must be made through a pull request.\n"
    lines = [_line("unpack ok\n")]
    for ref, _ in commands:
        why = "protected branch hook declined" if ref in refused else "atomic transaction failed"
        lines.append(_line(f"ng {ref} {why}\n"))
    report = b"".join(lines) + b"0000"
    if any(b"side-band-64k" in capabilities for _, capabilities in commands):
        report = _line(b"\x02" + said.encode()) + _line(b"\x01" + report) + b"0000"
    return Answer(200, report, {"Content-Type": "application/x-git-receive-pack-result", "Cache-Control": "no-cache"})


def _commands(body: bytes) -> list[tuple[str, bytes]]:
    """Refs that the push changes, each with the capabilities behind it (the first one has them)."""
    found: list[tuple[str, bytes]] = []
    place = 0
    while place + 4 <= len(body):
        size = int(body[place : place + 4], 16)
        if size < 4:
            break
        command = COMMAND.fullmatch(body[place + 4 : place + size])
        if command:
            found.append((command["ref"].decode(), command["capabilities"] or b""))
        place += size
    return found


def _line(data: str | bytes) -> bytes:
    raw = data.encode() if isinstance(data, str) else data
    return f"{len(raw) + 4:04x}".encode() + raw
