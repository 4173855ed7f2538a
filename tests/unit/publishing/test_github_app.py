"""An App's token: minted for the moment, for one repository, and replaced once when it is refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from agent_harness.errors import ConfigError, SurfaceError
from agent_harness.github_settings import App, GitHubAccess
from agent_harness.publishing.github_app import before_a_session
from tests.fakes.github_forge import Answer, loses_the_answer, server_error
from tests.fakes.github_forge_app import make_key
from tests.fakes.github_forge_state import PUBLISHER
from tests.unit.publishing.github_desk import DEMO, Desk

pytestmark = pytest.mark.anyio


@pytest.fixture
def by_app(github: Desk) -> Desk:
    github.token = None
    github.app = github.forge.add_app("octo", PUBLISHER)
    return github


async def look(desk: Desk, *, publishes: bool = True, issue: bool = False, access: GitHubAccess | None = None) -> GitHubAccess:
    return await before_a_session(access or desk.access, DEMO, publishes=publishes, issue=issue, pause=desk.pause)


async def test_the_token_of_a_publish_is_for_one_repository_and_its_two_permissions(by_app: Desk) -> None:
    assert by_app.app is not None
    await by_app.publish()
    assert by_app.repo.pulls[1].author == "agent[bot]"
    (minted,) = by_app.app.minted
    assert minted.repositories == frozenset({by_app.repo.id})
    assert minted.permissions == {"metadata": "read", "contents": "write", "pull_requests": "write"}


async def test_the_token_before_a_session_may_only_read(by_app: Desk) -> None:
    assert by_app.app is not None
    access = await look(by_app, issue=True)
    assert by_app.app.minted[0].permissions == {"metadata": "read", "contents": "read", "issues": "read"}
    assert access.token == by_app.app.minted[0].value
    assert await look(by_app, access=access) is access, "a token that is there is used"


async def test_a_refused_token_is_replaced_once(by_app: Desk) -> None:
    assert by_app.app is not None

    def revoking(work: Callable[[], Answer]) -> Answer:
        assert by_app.app is not None
        by_app.forge.revoke(by_app.app.minted[0].value)
        return work()

    by_app.forge.plan("GET", "/repos/octo/demo$", revoking)
    await by_app.publish()
    assert "token_refused" in by_app.steps
    assert len(by_app.app.minted) == 2
    assert list(by_app.repo.pulls) == [1]


async def test_a_lost_answer_to_minting_is_asked_for_again(by_app: Desk) -> None:
    assert by_app.app is not None
    by_app.forge.plan("POST", "/access_tokens$", loses_the_answer)
    assert (await look(by_app)).token == by_app.app.minted[1].value


async def test_what_the_app_lacks_is_named_before_anything_is_pushed(by_app: Desk) -> None:
    assert by_app.app is not None
    by_app.app.installations[0].permissions = {"contents": "write"}
    with pytest.raises(ConfigError, match="lacks pull_requests: write"):
        await look(by_app)
    await look(by_app, publishes=False)
    by_app.app.installations[0].suspended = True
    with pytest.raises(ConfigError, match="suspended"):
        await look(by_app)
    by_app.app.installations.clear()
    with pytest.raises(ConfigError, match="install the App"):
        await look(by_app)
    assert by_app.posts("git-receive-pack") == 0


async def test_an_id_and_a_key_that_do_not_fit_are_told_and_the_key_is_not(by_app: Desk) -> None:
    assert by_app.app is not None
    access = by_app.access
    by_app.app.key = make_key()
    with pytest.raises(ConfigError, match="do not belong together") as raised:
        await look(by_app, access=access)
    assert access.app is not None
    line = access.app.private_key.splitlines()[1]
    assert line not in str(raised.value) + repr(access)
    broken = App("7", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n")
    with pytest.raises(ConfigError, match="cannot be read"):
        await look(by_app, access=GitHubAccess(by_app.forge.api_url, app=broken))


async def test_a_github_that_is_down_may_be_tried_again(by_app: Desk) -> None:
    by_app.forge.plan("GET", "/installation$", server_error(), 9)
    with pytest.raises(SurfaceError):
        await look(by_app)
