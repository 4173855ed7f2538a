"""The App's own calls of the stand-in: a JSON web token signed with its key in, an installation token out.

Signatures are checked here, with nothing of any client library.
"""

from __future__ import annotations

import base64
import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import cast

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from agent_harness.events import JsonValue
from tests.fakes.github_forge_git import Answer
from tests.fakes.github_forge_rest import Json, Refused, Request, answer
from tests.fakes.github_forge_state import Level, Repo, Shape, Token, new_token_value

MAX_LIFE_S = 600
TOKEN_LIFE_S = 3600
UNREADABLE = "A JSON web token could not be decoded"


@dataclass
class Installation:
    """An App in one account. `repositories` None: all of that account's."""

    id: int
    owner: str
    permissions: Mapping[str, Level]
    repositories: frozenset[int] | None = None
    suspended: bool = False

    def covers(self, repo: Repo) -> bool:
        return repo.owner.lower() == self.owner.lower() and (self.repositories is None or repo.id in self.repositories)


@dataclass
class App:
    """One App. `private_key` is PEM, as its owner downloads it."""

    id: int
    slug: str
    key: rsa.RSAPrivateKey
    installations: list[Installation] = field(default_factory=list[Installation])
    minted: list[Token] = field(default_factory=list[Token])

    @property
    def private_key(self) -> str:
        kind, plain = serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
        return self.key.private_bytes(serialization.Encoding.PEM, kind, plain).decode()


def make_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def signed(key: rsa.RSAPrivateKey, claims: Mapping[str, JsonValue], algorithm: str = "RS256") -> str:
    """A JSON web token, made by hand."""
    parts = [_encoded(json.dumps(part).encode()) for part in ({"alg": algorithm, "typ": "JWT"}, dict(claims))]
    message = ".".join(parts)
    return f"{message}.{_encoded(key.sign(message.encode(), padding.PKCS1v15(), hashes.SHA256()))}"


def app_of(apps: Mapping[int, App], header: str | None) -> App:
    """The App that signed the token of that `Authorization` header.

    Raises:
        Refused: as GitHub does: unreadable, badly signed, out of time, too long-lived, or of no App that it knows.
    """
    scheme, _, value = (header or "").partition(" ")
    parts = value.split(".")
    if scheme.lower() != "bearer" or len(parts) != 3:
        raise Refused(401, UNREADABLE)
    try:
        about, claims = (cast("Json", json.loads(_decoded(part))) for part in parts[:2])
        signature = _decoded(parts[2])
    except ValueError:
        raise Refused(401, UNREADABLE) from None
    issuer = str(claims.get("iss", ""))
    app = apps.get(int(issuer)) if issuer.isdecimal() else None
    if app is None:
        raise Refused(404, "Integration not found")
    if about.get("alg") != "RS256" or not _verifies(app, f"{parts[0]}.{parts[1]}", signature):
        raise Refused(401, UNREADABLE)
    _check_times(claims)
    return app


def _verifies(app: App, message: str, signature: bytes) -> bool:
    try:
        app.key.public_key().verify(signature, message.encode(), padding.PKCS1v15(), hashes.SHA256())
    except InvalidSignature:
        return False
    return True


def _check_times(claims: Json) -> None:
    issued, expires, now = claims.get("iat"), claims.get("exp"), time.time()
    if not isinstance(issued, int) or issued > now + 5:
        raise Refused(401, "'Issued at' claim ('iat') must be an Integer representing the time that the assertion was issued.")
    if not isinstance(expires, int) or expires <= now:
        raise Refused(
            401,
            "'Expiration time' claim ('exp') must be a numeric value representing the future time at which the assertion"
            " expires.",
        )
    if expires - now > MAX_LIFE_S:
        raise Refused(401, "'Expiration time' claim ('exp') is too far in the future.")


def route(
    request: Request,
    headers: Mapping[str, str],
    apps: Mapping[int, App],
    repos: Mapping[str, Repo],
    keep: Callable[[Token], None],
) -> Answer | None:
    """The answer to one of the App's own calls; None when the request is another one."""
    installation = re.fullmatch(r"/repos/([^/]+/[^/]+)/installation", request.path)
    minting = re.fullmatch(r"/app/installations/(\d+)/access_tokens", request.path)
    if request.path != "/app" and installation is None and minting is None:
        return None
    app = app_of(apps, headers.get("authorization"))
    if installation is not None and request.method == "GET":
        repo = repos.get(installation[1].lower())
        found = next((each for each in app.installations if repo is not None and each.covers(repo)), None)
        if found is None:
            raise Refused(404, "Not Found")
        return answer(200, _installation_json(request, app, found))
    if minting is not None and request.method == "POST":
        found = next((each for each in app.installations if each.id == int(minting[1])), None)
        if found is None:
            raise Refused(404, "Not Found")
        return _mint(request, headers, app, found, repos, keep)
    return answer(200, {"id": app.id, "slug": app.slug, "name": app.slug})


def _mint(
    request: Request,
    headers: Mapping[str, str],
    app: App,
    installation: Installation,
    repos: Mapping[str, Repo],
    keep: Callable[[Token], None],
) -> Answer:
    if installation.suspended:
        raise Refused(403, "This installation has been suspended")
    wanted = request.json() if request.body else {}
    permissions = cast("dict[str, Level]", wanted.get("permissions") or dict(installation.permissions))
    held = {"metadata": "read", **installation.permissions}
    for name, level in permissions.items():
        if held.get(name) != "write" and held.get(name) != level:
            raise Refused(422, "The permissions requested are not granted to this installation.")
    repositories = installation.repositories
    names = wanted.get("repositories")
    if isinstance(names, list):
        found = [repos.get(f"{installation.owner}/{name}".lower()) for name in names]
        if any(repo is None or not installation.covers(repo) for repo in found):
            raise Refused(
                422, "There is at least one repository that does not exist or is not accessible to the parent installation."
            )
        repositories = frozenset(repo.id for repo in found if repo is not None)
    elif repositories is None:
        repositories = frozenset(repo.id for repo in repos.values() if installation.covers(repo))
    shape: Shape = "installation_jwt" if headers.get("x-github-stateless-s2s-token") != "disabled" else "installation"
    granted: dict[str, Level] = {"metadata": "read", **permissions}
    expires_at = time.time() + TOKEN_LIFE_S
    token = Token(new_token_value(shape), f"{app.slug}[bot]", shape, granted, repositories, expires_at)
    app.minted.append(token)
    keep(token)
    content: Json = {
        "token": token.value,
        "expires_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(expires_at)),
        "permissions": dict(granted),
        "repository_selection": "selected" if isinstance(names, list) else "all",
    }
    return answer(201, content)


def _installation_json(request: Request, app: App, installation: Installation) -> Json:
    return {
        "id": installation.id,
        "app_id": app.id,
        "app_slug": app.slug,
        "account": {"login": installation.owner},
        "permissions": {"metadata": "read", **installation.permissions},
        "repository_selection": "all" if installation.repositories is None else "selected",
        "suspended_at": "2026-01-01T00:00:00Z" if installation.suspended else None,
        "access_tokens_url": f"{request.api}/app/installations/{installation.id}/access_tokens",
    }


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _decoded(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
