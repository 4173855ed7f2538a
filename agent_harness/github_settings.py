"""Which GitHub is meant, with which token, and which repository a URL or `owner/name#N` names. Nothing here speaks to it."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

from agent_harness.errors import ConfigError
from agent_harness.transport import Transport

PUBLIC_API_URL = "https://api.github.com"
API_VARIABLE = "GITHUB_API_URL"
TOKEN_VARIABLES = ("AGENT_GITHUB_INSTALLATION_TOKEN", "GITHUB_TOKEN")
APP_ID_VARIABLE = "AGENT_GITHUB_APP_ID"
KEY_VARIABLE, KEY_FILE_VARIABLE = "AGENT_GITHUB_PRIVATE_KEY", "AGENT_GITHUB_PRIVATE_KEY_FILE"
MAX_KEY_BYTES = 64 << 10
LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
PORTS = {"https": 443, "http": 80}

# The forge's own rules for names; managed accounts have an underscore in theirs.
OWNER = r"[A-Za-z0-9](?:[A-Za-z0-9_-]{0,98}[A-Za-z0-9_])?"
NAME = r"[A-Za-z0-9._-]{1,100}"
ADDRESS = re.compile(rf"({OWNER})/({NAME})")
ISSUE = re.compile(rf"({OWNER})/({NAME})#([1-9][0-9]{{0,9}})")
SCP = re.compile(r"(?:[^@/:\s]+@)?(?P<host>[^@/:\s]+):(?P<path>[^:\s][^\s]*)")


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository of the configured GitHub, spelt as it was asked for."""

    owner: str
    name: str

    @property
    def full_name(self) -> str:
        """`owner/name`."""
        return f"{self.owner}/{self.name}"


@dataclass(frozen=True, slots=True)
class App:
    """A GitHub App: its id, and its private key as PEM, from which tokens are minted. The key never leaves this process."""

    id: str
    private_key: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class GitHubAccess:
    """One GitHub and the right to act there.

    Attributes:
        api_url: root of its REST interface, without a slash at the end.
        web_url: root of its web pages and git repositories, without a slash at the end.
        token: None when nobody set one, or none was minted yet; public repositories can still be read.
        source: the variable that the token was read from, for messages; empty without one.
        app: mints tokens; None when a token was set.

    Raises:
        ConfigError: the address of the interface has a shape that no GitHub has.
    """

    api_url: str = PUBLIC_API_URL
    token: str | None = field(default=None, repr=False)
    source: str = ""
    app: App | None = field(default=None, repr=False)
    web_url: str = field(init=False)

    def __post_init__(self) -> None:
        api_url, web_url = _addresses(self.api_url)
        object.__setattr__(self, "api_url", api_url)
        object.__setattr__(self, "web_url", web_url)

    @property
    def can_publish(self) -> bool:
        """Whether there is a token, or an App to mint one."""
        return self.token is not None or self.app is not None

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must be seen nowhere."""
        return tuple(each for each in (self.token, self.app and self.app.private_key) if each)

    def clone_url(self, repository: Repository) -> str:
        """Where git finds it, over HTTP, without credentials."""
        return f"{self.web_url}/{repository.full_name}.git"

    def transport(self, repository: Repository) -> Transport:
        """The same with the token as a header that is bound to this origin; the token is in no URL."""
        header = None
        if self.token is not None:
            header = "Authorization: Basic " + base64.b64encode(f"x-access-token:{self.token}".encode()).decode()
        return Transport(self.clone_url(repository), header)


def access_from(environ: Mapping[str, str]) -> GitHubAccess:
    """What the environment says: `GITHUB_API_URL`, and a token or an App.

    The harness's own token wins over the App, and the App over `GITHUB_TOKEN`, which many machines set for everything.

    Raises:
        ConfigError: the address cannot be used, the token cannot be one, or the App has an id or a key only.
    """
    api_url = environ.get(API_VARIABLE, "").strip() or PUBLIC_API_URL
    own, common = TOKEN_VARIABLES
    app = _app(environ)
    for variable in (own,) if app is not None else (own, common):
        token = environ.get(variable, "").strip()
        if not token:
            continue
        if not token.isascii() or not token.isprintable() or " " in token:
            raise ConfigError(f"{variable} holds a blank or a character that no token has; check how it was pasted")
        return GitHubAccess(api_url, token, variable)
    return GitHubAccess(api_url, source="" if app is None else APP_ID_VARIABLE, app=app)


def _app(environ: Mapping[str, str]) -> App | None:
    number = environ.get(APP_ID_VARIABLE, "").strip()
    key, file = environ.get(KEY_VARIABLE, "").strip(), environ.get(KEY_FILE_VARIABLE, "").strip()
    if not number and not key and not file:
        return None
    if not number:
        raise ConfigError(f"{KEY_VARIABLE if key else KEY_FILE_VARIABLE} is set without {APP_ID_VARIABLE}; set both, or neither")
    if not re.fullmatch(r"[0-9]{1,12}|Iv[A-Za-z0-9.]{6,40}", number):
        raise ConfigError(
            f"{APP_ID_VARIABLE} is {number[:40]!r}; give the App's number (or its client id) from its settings page"
        )
    if not key and not file:
        raise ConfigError(f"{APP_ID_VARIABLE} is set without its key; set {KEY_FILE_VARIABLE} to the downloaded .pem file")
    where = KEY_VARIABLE if key else f"the file {file!r} of {KEY_FILE_VARIABLE}"
    # Where a variable can only be one line, people write the line ends as they would in a program.
    pem = key.replace("\\n", "\n") if key else _read_key(file, where)
    if not re.search(r"-----BEGIN (RSA )?PRIVATE KEY-----", pem) or "-----END " not in pem:
        raise ConfigError(f"{where} is no private key in PEM; give the whole .pem file of the App's settings page")
    return App(number, pem.strip() + "\n")


def _read_key(file: str, where: str) -> str:
    try:
        with Path(file).expanduser().open("rb") as opened:
            return opened.read(MAX_KEY_BYTES).decode("ascii", "replace")
    except OSError as error:
        raise ConfigError(f"{where} cannot be read: {error.strerror}; check its path and its rights") from error


def parse_github_url(url: str, api_url: str = PUBLIC_API_URL) -> Repository | None:
    """The repository that a git URL names, None when it is not one of that GitHub.

    Args:
        url: `https://HOST/OWNER/NAME[.git]`, `ssh://git@HOST/OWNER/NAME[.git]` or `git@HOST:OWNER/NAME[.git]`; credentials in
            it are not looked at.
        api_url: root of the REST interface of the GitHub that is meant.

    Raises:
        ConfigError: that is no address of an interface.
    """
    web = urlsplit(_addresses(api_url)[1])
    if "://" not in url:
        scp = SCP.fullmatch(url)
        return _repository(scp["path"]) if scp and _same_host(scp["host"], web) else None
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    scheme, host = parts.scheme.lower(), parts.hostname or ""
    if parts.query or parts.fragment or not _same_host(host, web):
        return None
    if scheme == "ssh":
        # Port 443 is where ssh.github.com listens for those behind a firewall.
        return _repository(parts.path) if port in (None, 22, 443) else None
    if scheme not in PORTS:
        return None
    # A plain-HTTP URL of a GitHub with HTTPS means the same repository; what is spoken to is always `clone_url`.
    plain = scheme == "http" and web.scheme == "https" and port in (None, 80)
    same = (port or PORTS[scheme]) == (web.port or PORTS[web.scheme]) and scheme == web.scheme
    return _repository(parts.path) if plain or same else None


def parse_issue(text: str) -> tuple[Repository, int] | None:
    """Repository and number of `owner/name#N`, None when the text is something else."""
    found = ISSUE.fullmatch(text.strip())
    return (Repository(found[1], found[2]), int(found[3])) if found and found[2].strip(".") else None


def _addresses(api_url: str) -> tuple[str, str]:
    """API root and web root, without a slash at their ends."""
    hint = f"write {API_VARIABLE} as {PUBLIC_API_URL} or, for GitHub Enterprise Server, as https://HOST/api/v3"
    try:
        parts = urlsplit(api_url.strip())
        host, port = (parts.hostname or "").lower(), parts.port
    except ValueError as error:
        raise ConfigError(f"the address of GitHub's API cannot be read ({error}); {hint}") from error
    if parts.username is not None or parts.password is not None:
        raise ConfigError(f"the address of GitHub's API holds credentials; take them out and set {TOKEN_VARIABLES[0]}; {hint}")
    if not host or parts.scheme not in PORTS or parts.query or parts.fragment:
        raise ConfigError(f"{api_url!r} is no address of GitHub's API; {hint}")
    if parts.scheme == "http" and host not in LOOPBACK:
        raise ConfigError(f"{api_url!r} would send the token unencrypted; use https")
    path = parts.path.rstrip("/")
    place = (f"[{host}]" if ":" in host else host) + (f":{port}" if port else "")
    if path == "/api/v3":
        return f"{parts.scheme}://{place}/api/v3", f"{parts.scheme}://{place}"
    if path == "" and host.startswith("api."):
        return f"{parts.scheme}://{place}", f"{parts.scheme}://{place.removeprefix('api.')}"
    raise ConfigError(f"{api_url!r} is no address of GitHub's API; {hint}")


def _same_host(host: str, web: SplitResult) -> bool:
    name, ours = host.lower().rstrip("."), web.hostname or ""
    return name == ours or name in (f"www.{ours}", f"ssh.{ours}")


def _repository(path: str) -> Repository | None:
    found = ADDRESS.fullmatch(unquote(path).strip("/").removesuffix(".git"))
    return Repository(found[1], found[2]) if found and found[2].strip(".") else None
