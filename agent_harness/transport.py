"""A remote repository's URL, taken apart so that its credentials travel apart from it."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from urllib.parse import quote, unquote, urlsplit

from agent_harness.errors import ConfigError

PROTOCOLS = ("file", "http", "https", "ssh")


@dataclass(frozen=True, slots=True)
class Transport:
    """A remote and the right to speak to it, for one call at a time.

    Args:
        url: a git URL (`file`, `http`, `https`, `ssh`, or `user@host:path`) or an absolute path; it may carry `user:password@`.
        header: a whole HTTP header line, such as `Authorization: Basic ...`; wins over what the URL carries.

    Attributes:
        safe_url: the URL without credentials; this is what stands in the argv, in messages and in records.
        protocol: `file`, `http`, `https` or `ssh`.
        secrets: every spelling of the credentials, for redactors.

    Raises:
        ConfigError: no protocol that the harness speaks, or not a URL at all.
    """

    url: str = field(repr=False)
    header: str | None = field(default=None, repr=False)
    safe_url: str = field(init=False)
    protocol: str = field(init=False)
    origin: str = field(init=False)
    auth: str | None = field(init=False, repr=False)
    secrets: tuple[str, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if any(ord(c) < 32 or ord(c) == 127 for c in self.url + (self.header or "")):
            raise ConfigError("a git URL with a control character in it is refused; check how it was pasted")
        protocol, safe, origin, user, password = _take_apart(self.url)
        auth = self.header
        if auth is None and protocol in ("http", "https") and (user or password):
            pair = base64.b64encode(f"{user}:{password}".encode()).decode()
            auth = f"Authorization: Basic {pair}"
        secrets = _spellings(user if protocol != "ssh" and not password else "", password, auth)
        for name, value in (("safe_url", safe), ("protocol", protocol), ("origin", origin), ("auth", auth), ("secrets", secrets)):
            object.__setattr__(self, name, value)


def _take_apart(url: str) -> tuple[str, str, str, str, str]:
    """Protocol, URL without credentials, origin (`scheme://host:port`), user, password."""
    if url.startswith("/"):
        return "file", "file://" + quote(url), "", "", ""
    scheme, separator, _ = url.partition("://")
    if not separator:
        host, colon, path = url.partition(":")
        if colon and path and not path.startswith(":") and "@" not in path and "/" not in host and not host.startswith("-"):
            return "ssh", url, "", "", ""
        shown = "this" if "@" in url else repr(url)  # `user:password@host` without a scheme is not repeated
        raise ConfigError(f"{shown} is no git URL; write file:///path, https://host/path, ssh://host/path or an absolute path")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise ConfigError(f"the git URL cannot be read: {error}") from error
    protocol = scheme.lower()
    if protocol not in PROTOCOLS:
        raise ConfigError(f"the protocol {scheme!r} is not spoken here; use one of {', '.join(PROTOCOLS)}")
    if protocol == "file":
        return protocol, "file://" + url.partition("://")[2], "", "", ""
    if not host or host.startswith("-"):
        raise ConfigError("the git URL names no host")
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    place = (f"[{host}]" if ":" in host else host) + (f":{port}" if port else "")
    keep = f"{quote(user)}@" if protocol == "ssh" and user else ""
    if keep.startswith("-"):
        raise ConfigError("the git URL names no usable user")
    tail = (f"?{parts.query}" if parts.query else "") + (f"#{parts.fragment}" if parts.fragment else "")
    return protocol, f"{protocol}://{keep}{place}{parts.path}{tail}", f"{protocol}://{place}", user, password


def _spellings(user: str, password: str, auth: str | None) -> tuple[str, ...]:
    """Everything that must not be seen, the longest first."""
    found = {user, password, quote(user, safe=""), quote(password, safe="")}
    if auth:
        value = auth.partition(":")[2].strip()
        credential = value.partition(" ")[2].strip() or value
        found |= {auth, value, credential, credential.rstrip("=")}
        try:
            secret = base64.b64decode(credential, validate=True).decode().partition(":")[2]
        except ValueError:
            secret = ""
        found |= {secret, quote(secret, safe="")}
    return tuple(sorted((s for s in found if s), key=len, reverse=True))
