"""The App's calls of the stand-in for GitHub: tokens made by hand, raw HTTP, without any client of ours."""

from __future__ import annotations

import time

import pytest

from agent_harness.events import JsonValue
from tests.fakes.github_forge_app import App, make_key, signed
from tests.fakes.github_forge_rest import Json
from tests.fakes.github_forge_state import PUBLISHER
from tests.fakes.github_wire import Reply, World

KEY = make_key()


def claims(app: App, **changed: JsonValue) -> Json:
    now = int(time.time())
    return {"iss": str(app.id), "iat": now - 60, "exp": now + 300, **changed}


def as_app(world: World, jwt: str, method: str, path: str, body: object = None, stateless: str | None = None) -> Reply:
    return world.ask(method, path, body, authorization=f"Bearer {jwt}", stateless=stateless)


def installed(world: World) -> App:
    app = world.forge.add_app("octo")
    app.key = KEY
    return app


def mint(world: World, app: App, body: object = None, stateless: str | None = None) -> Reply:
    place = f"/app/installations/{app.installations[0].id}/access_tokens"
    return as_app(world, signed(KEY, claims(app)), "POST", place, body, stateless)


def test_a_signed_token_finds_the_installation_and_mints_a_token_that_pushes_and_opens(world: World) -> None:
    app = installed(world)
    found = as_app(world, signed(KEY, claims(app)), "GET", "/repos/octo/demo/installation").json
    assert (found["id"], found["app_id"]) == (app.installations[0].id, app.id)
    assert found["permissions"] == {"metadata": "read", **PUBLISHER}
    minted = mint(world, app)
    assert minted.status == 201
    world.token = str(minted.json["token"])
    world.pushed()
    assert world.pull().json["number"] == 1
    assert world.pull().error["message"] == "A pull request already exists for octo:agent/s1."


def test_a_minted_token_has_the_repositories_and_permissions_that_were_asked_for(world: World) -> None:
    app = installed(world)
    world.forge.add_repository("octo/other")
    body = {"repositories": ["demo"], "permissions": {"contents": "read"}}
    minted = mint(world, app, body).json
    token = str(minted["token"])
    assert minted["permissions"] == {"metadata": "read", "contents": "read"}
    assert world.ask("GET", "/repos/octo/demo", token=token).status == 200
    assert world.ask("GET", "/repos/octo/other", token=token).status == 404
    assert world.ask("POST", "/repos/octo/demo/pulls", {}, token=token).status == 403
    assert world.ask("GET", "/repos/octo/other", token=str(mint(world, app).json["token"])).status == 200


def test_both_shapes_of_token_are_minted(world: World) -> None:
    app = installed(world)
    assert len(str(mint(world, app, stateless="enabled").json["token"])) > 400
    assert len(str(mint(world, app, stateless="disabled").json["token"])) == 40


def test_what_the_installation_does_not_have_is_refused(world: World) -> None:
    app = installed(world)
    for body in ({"permissions": {"workflows": "write"}}, {"permissions": {"issues": "write"}}):
        assert mint(world, app, body).message == "The permissions requested are not granted to this installation."
    assert mint(world, app, {"repositories": ["nowhere"]}).message.startswith("There is at least one repository")
    app.installations[0].suspended = True
    assert (mint(world, app).status, mint(world, app).message) == (403, "This installation has been suspended")


def test_a_token_of_another_key_is_refused(world: World) -> None:
    app = installed(world)
    reply = as_app(world, signed(make_key(), claims(app)), "GET", "/app")
    assert (reply.status, reply.message) == (401, "A JSON web token could not be decoded")
    assert as_app(world, signed(KEY, claims(app)), "GET", "/app").json["slug"] == "agent"


@pytest.mark.parametrize("jwt", ["", "a.b.c", "no token", "e30.e30.", "e30.e30"])
def test_what_is_no_token_is_refused(world: World, jwt: str) -> None:
    installed(world)
    assert as_app(world, jwt, "GET", "/app").status in (401, 404)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"exp": int(time.time()) + 3600}, "too far in the future"),
        ({"exp": int(time.time()) - 1}, "must be a numeric value"),
        ({"exp": "soon"}, "must be a numeric value"),
        ({"iat": int(time.time()) + 600}, "'Issued at'"),
    ],
)
def test_a_token_out_of_its_time_is_refused(world: World, changed: dict[str, JsonValue], words: str) -> None:
    reply = as_app(world, signed(KEY, claims(installed(world), **changed)), "GET", "/app")
    assert reply.status == 401
    assert words in reply.message


def test_a_token_signed_by_another_rule_is_refused(world: World) -> None:
    assert as_app(world, signed(KEY, claims(installed(world)), "HS256"), "GET", "/app").status == 401


def test_an_app_that_nobody_knows_and_one_that_is_not_installed_are_refused(world: World) -> None:
    app = installed(world)
    reply = as_app(world, signed(KEY, claims(app, iss="1")), "GET", "/app")
    assert (reply.status, reply.message) == (404, "Integration not found")
    app.installations[0].repositories = frozenset({1})
    assert as_app(world, signed(KEY, claims(app)), "GET", "/repos/octo/demo/installation").status == 404
    assert as_app(world, signed(KEY, claims(app)), "GET", "/repos/octo/nowhere/installation").status == 404


def test_an_installation_token_is_no_app_and_an_app_is_no_installation(world: World) -> None:
    app = installed(world)
    assert world.ask("GET", "/app").status == 401
    assert as_app(world, signed(KEY, claims(app)), "GET", "/repos/octo/demo").status == 401
