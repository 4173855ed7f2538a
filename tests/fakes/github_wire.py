"""Raw HTTP and raw git against the stand-in for GitHub, without any client of ours."""

from __future__ import annotations

import base64
import json
import os
import subprocess
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import cast

from agent_harness.events import JsonValue
from tests.fakes.github_forge import GitHubStandIn
from tests.fakes.github_forge_rest import Json
from tests.fakes.github_forge_state import Repo
from tests.unit.publishing.repos import BRANCH, REF, Origin


@dataclass
class Reply:
    status: int
    headers: dict[str, str]
    json: Json

    @property
    def message(self) -> str:
        return str(self.json.get("message"))

    @property
    def error(self) -> Json:
        return cast("list[Json]", self.json["errors"])[0]


@dataclass
class World:
    forge: GitHubStandIn
    repo: Repo
    origin: Origin
    token: str

    def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        token: str | None = None,
        anonymous: bool = False,
        authorization: str | None = None,
        stateless: str | None = None,
    ) -> Reply:
        connection = HTTPConnection("127.0.0.1", self.forge.port, timeout=20)
        headers = {"User-Agent": "test"}
        if not anonymous:
            headers["Authorization"] = authorization or f"token {token or self.token}"
        if stateless is not None:
            headers["X-GitHub-Stateless-S2S-Token"] = stateless
        try:
            connection.request(method, f"/api/v3{path}", None if body is None else json.dumps(body), headers)
            response = connection.getresponse()
            content = response.read()
        finally:
            connection.close()
        found = {name.lower(): value for name, value in response.getheaders()}
        parsed = cast("JsonValue", json.loads(content)) if "json" in found.get("content-type", "") else None
        return Reply(response.status, found, parsed if isinstance(parsed, dict) else {"list": parsed})

    def pull(self, **changes: object) -> Reply:
        body = {"title": "Work", "body": "Done", "head": BRANCH, "base": "main", **changes}
        return self.ask("POST", "/repos/octo/demo/pulls", body)

    def git(self, *args: str, token: str | None = None, cwd: Path | None = None, follow: bool = True) -> tuple[int, str]:
        """Exit code and everything that git said."""
        header = "Authorization: Basic " + base64.b64encode(f"x-access-token:{token or self.token}".encode()).decode()
        env = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.origin.clone),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_CONFIG_COUNT": "3",
            "GIT_CONFIG_KEY_0": "http.extraHeader",
            "GIT_CONFIG_VALUE_0": "" if token == "" else header,
            "GIT_CONFIG_KEY_1": "http.followRedirects",
            "GIT_CONFIG_VALUE_1": str(follow).lower(),
            "GIT_CONFIG_KEY_2": "http.proxy",
            "GIT_CONFIG_VALUE_2": "",
            "LC_ALL": "C.UTF-8",
        }
        done = subprocess.run(["git", *args], cwd=cwd or self.origin.clone, env=env, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    @property
    def url(self) -> str:
        return f"{self.forge.url}/octo/demo.git"

    def pushed(self) -> str:
        head = self.origin.commit({"a.py": "two\n"})
        code, said = self.git("push", self.url, f"HEAD:{REF}")
        assert code == 0, said
        return head
