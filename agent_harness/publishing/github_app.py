"""A GitHub App's way to a token: signed with the App's key, minted for one repository and for what is about to be done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import anyio

from agent_harness.errors import ConfigError, HarnessError, PublishError, SurfaceError
from agent_harness.events import JsonValue
from agent_harness.github_settings import APP_ID_VARIABLE, GitHubAccess, Repository
from agent_harness.publishing.github_client import GitHubClient, GitHubFailed, Pause
from agent_harness.publishing.github_failures import Trouble

if TYPE_CHECKING:
    from github import Github

Permissions = Mapping[str, str]

LOOKS: Permissions = {"contents": "read"}
LOOKS_AT_ISSUES: Permissions = {"contents": "read", "issues": "read"}
PUBLISHES: Permissions = {"contents": "write", "pull_requests": "write"}
DEADLINE_S = 150.0  # of finding the installation and minting, waits included
STRENGTH = {"read": 1, "write": 2, "admin": 3}


async def before_a_session(
    access: GitHubAccess, repository: Repository, *, publishes: bool, issue: bool, pause: Pause = anyio.sleep
) -> GitHubAccess:
    """The same GitHub with a token that may only read, where an App is configured; as it is where a token is.

    Args:
        access: which GitHub, and the App.
        repository: the one repository that the token is for.
        publishes: work will be pushed and proposed later: the App must be allowed to, which is found out now.
        issue: an issue of the repository is to be read.
        pause: waits that many seconds between attempts.

    Raises:
        ConfigError: not installed there, not allowed enough, or id and key do not fit.
        SurfaceError: GitHub cannot be reached just now.
    """
    if access.app is None or access.token is not None:
        return access
    wanted = LOOKS_AT_ISSUES if issue else LOOKS
    try:
        return await _with_token(access, repository, wanted, PUBLISHES if publishes else wanted, pause)
    except GitHubFailed as failure:
        kind: type[HarnessError] = SurfaceError if failure.trouble.retryable else ConfigError
        raise kind(_told(repository, failure.trouble), reason=f"github_{failure.trouble.code}") from failure


async def for_publishing(access: GitHubAccess, repository: Repository, pause: Pause = anyio.sleep) -> GitHubAccess:
    """The same GitHub with a fresh token that may push and propose, where an App is configured; as it is where a token is.

    Raises:
        PublishError: no such token is to be had; nothing was pushed.
    """
    if access.app is None:
        return access
    try:
        return await _with_token(access, repository, PUBLISHES, PUBLISHES, pause)
    except GitHubFailed as failure:
        trouble = failure.trouble
        raise PublishError(_told(repository, trouble), reason=f"github_{trouble.code}", retryable=trouble.retryable) from failure


def _told(repository: Repository, trouble: Trouble) -> str:
    return f"the App has no token for {repository.full_name!r} on GitHub ({trouble.code}): {trouble}"


async def _with_token(
    access: GitHubAccess, repository: Repository, wanted: Permissions, needed: Permissions, pause: Pause
) -> GitHubAccess:
    as_app = replace(access, token=None)
    with anyio.move_on_after(DEADLINE_S), GitHubClient(as_app, pause) as client:
        try:
            found = await client.read(lambda github: _installation(github, repository))
            _check(found, needed)
            # A spare token harms nobody, so a lost answer is simply asked for again.
            token = await client.read(lambda github: _mint(github, found, repository, wanted))
        except GitHubFailed as failure:
            raise GitHubFailed(_of_an_app(failure.trouble)) from failure
        return replace(access, token=token, source=APP_ID_VARIABLE)
    said = f"no answer within {DEADLINE_S:g} s"
    raise GitHubFailed(Trouble("unreachable", said, "check the network, then try again", retryable=True))


def _installation(github: Github, repository: Repository) -> Mapping[str, JsonValue]:
    _, found = github.requester.requestJsonAndCheck("GET", f"/repos/{repository.full_name}/installation")
    return cast("Mapping[str, JsonValue]", found)


def _mint(github: Github, installation: Mapping[str, JsonValue], repository: Repository, wanted: Permissions) -> str:
    place = f"/app/installations/{installation['id']}/access_tokens"
    body = {"repositories": [repository.name], "permissions": dict(wanted)}
    _, made = github.requester.requestJsonAndCheck("POST", place, input=body)
    return str(cast("Mapping[str, JsonValue]", made)["token"])


def _check(installation: Mapping[str, JsonValue], needed: Permissions) -> None:
    """Before anything is pushed: a branch without its pull request helps nobody."""
    if installation.get("suspended_at") is not None:
        raise GitHubFailed(Trouble("suspended", "its installation is suspended", "have it unsuspended"))
    granted = installation.get("permissions")
    held = granted if isinstance(granted, dict) else {}
    missing = [f"{name}: {level}" for name, level in needed.items() if STRENGTH.get(str(held.get(name)), 0) < STRENGTH[level]]
    if missing:
        said = f"its installation lacks {', '.join(missing)}"
        raise GitHubFailed(Trouble("no_permission", said, "add that to the App, and have the installation approve it"))


def _of_an_app(trouble: Trouble) -> Trouble:
    """The same trouble with the advice that holds for an App."""
    if trouble.code == "bad_credentials":
        advice = f"{APP_ID_VARIABLE} and the private key do not belong together, or the clock of this machine is wrong"
        return replace(trouble, advice=advice)
    if trouble.code == "not_found":
        advice = f"install the App on that repository, or check {APP_ID_VARIABLE} and the repository's name"
        return replace(trouble, advice=advice)
    return trouble
