"""What REPO means: the repository to work on, where the work is proposed, and for `owner/name#N` the task itself."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from agent_harness.errors import ConfigError
from agent_harness.github_settings import (
    APP_ID_VARIABLE,
    KEY_FILE_VARIABLE,
    TOKEN_VARIABLES,
    GitHubAccess,
    Repository,
    access_from,
    parse_github_url,
    parse_issue,
)
from agent_harness.in_place import origin_of, take_place
from agent_harness.inert_git import Git
from agent_harness.origins import Origin, exists, is_path, of_path, of_url
from agent_harness.publishing.base import Forge
from agent_harness.publishing.github import GitHubForge
from agent_harness.publishing.github_app import before_a_session, for_publishing
from agent_harness.publishing.github_before import check_repository, read_issue
from agent_harness.publishing.issue_text import Issue, task_of
from agent_harness.publishing.local_forge import LocalForge
from agent_harness.publishing.publisher import Renew
from agent_harness.settings import Settings
from agent_harness.surfaces.host import Place
from agent_harness.task import IssueLink
from agent_harness.tasks import task_group
from agent_harness.transport import Transport


@dataclass(frozen=True, slots=True)
class Assignment:
    """A task that can be taken on.

    Attributes:
        origin: the repository, looked at.
        text: what to do: the person's words, the issue's, or the first followed by the second.
        access: the GitHub that is meant, and the token for it.
        issue: the issue that the task came from.
        place: the checkout to work on in place, held.
    """

    origin: Origin
    text: str
    access: GitHubAccess
    issue: IssueLink | None = None
    place: Place | None = None


async def look_up(git: Git, settings: Settings) -> Assignment:
    """Look at the repository, and at GitHub when it is one of there; nothing is created.

    A checkout to work on in place is held from then on, until the session's surface gives it back.

    Raises:
        ConfigError: it cannot be worked on, or its pull request could not be opened; says what to do.
        SurfaceError: it cannot be reached just now.
    """
    access = access_from(settings.environ)
    if settings.surface == "host" or (settings.surface == "auto" and names_path(settings.repo, settings.started_in)):
        return await _in_place(git, settings, access)
    if names_path(settings.repo, settings.started_in):
        return Assignment(await _path(git, settings, access, None), settings.text, access)
    named = parse_issue(settings.repo)
    repository, number = named or (parse_github_url(settings.repo, access.api_url), None)
    if repository is None:
        return Assignment(await of_url(git, Transport(settings.repo), settings.base), settings.text, access)
    access = access if named else _with_token_in(settings.repo, access)
    origin, issue = await _on_github(git, settings, access, repository, number)
    if issue is None or number is None:
        return Assignment(origin, settings.text, access)
    link = IssueLink(number, issue.author, issue.url)
    return Assignment(origin, task_of(issue, repository, number, settings.text), access, link)


async def _in_place(git: Git, settings: Settings, access: GitHubAccess) -> Assignment:
    place = await take_place(git, _existing(settings), settings.home, settings.environ, confined=settings.confine)
    try:
        return Assignment(await _path(git, settings, access, place), settings.text, access, place=place)
    except BaseException:
        place.hold.release()
        raise


def names_path(repo: str, started_in: Path) -> bool:
    """Whether REPO is a place on this machine; one that exists wins over an issue of the same name."""
    return exists(repo, started_in) or (parse_issue(repo) is None and is_path(repo, started_in))


def reach(access: GitHubAccess, url: str, *, publishes: bool) -> Transport:
    """How git gets to a repository: with the token where it is one of that GitHub.

    Raises:
        ConfigError: it is, work is to be published there, and there is no token.
    """
    repository = parse_github_url(url, access.api_url)
    if repository is None:
        return Transport(url)
    if publishes and not access.can_publish:
        raise ConfigError(
            f"a pull request in {repository.full_name!r} on GitHub needs a token: set {' or '.join(TOKEN_VARIABLES)} "
            f"(contents: write, pull requests: write), or {APP_ID_VARIABLE} and {KEY_FILE_VARIABLE}, "
            "or keep the work here with --no-pr"
        )
    return access.transport(repository)


def forge_of(access: GitHubAccess, target: Transport, folder: Path) -> Forge:
    """Where the pull request of work that goes to that remote is opened; a file in the session's folder if not on GitHub."""
    repository = parse_github_url(target.safe_url, access.api_url)
    return LocalForge(folder) if repository is None else GitHubForge(access, repository)


def renewal_of(access: GitHubAccess, target: Transport) -> Renew | None:
    """How an App gets a fresh token when the work is ready to go; None where the token is the person's own."""
    repository = parse_github_url(target.safe_url, access.api_url)
    if access.app is None or repository is None:
        return None

    async def renew() -> tuple[Transport, Forge]:
        fresh = await for_publishing(access, repository)
        return fresh.transport(repository), GitHubForge(fresh, repository)

    return renew


async def _path(git: Git, settings: Settings, access: GitHubAccess, place: Place | None) -> Origin:
    publishes = settings.pull_request
    looking = access

    async def transport_of(url: str) -> Transport:
        nonlocal looking
        repository = parse_github_url(url, access.api_url)
        if repository is not None and publishes:
            looking = await before_a_session(access, repository, publishes=True, issue=False)
        return reach(looking, url, publishes=publishes)

    if place is not None:
        origin = await origin_of(git, place, settings.base, transport_of, publishes=publishes)
    else:
        origin = await of_path(git, _existing(settings), settings.base, transport_of, publishes=publishes)
    target = origin.target
    repository = parse_github_url(target.safe_url, access.api_url) if target and publishes else None
    if repository is not None:
        await check_repository(looking, repository, publishes=True)
    return origin


def _existing(settings: Settings) -> Path:
    if not exists(settings.repo, settings.started_in):
        raise ConfigError(f"{settings.repo!r} does not exist here; give a git repository, a git URL, or an issue as owner/name#N")
    return settings.started_in / settings.repo


async def _on_github(
    git: Git, settings: Settings, access: GitHubAccess, repository: Repository, number: int | None
) -> tuple[Origin, Issue | None]:
    """All that is asked of GitHub, side by side. Its own answer tells more than git's, so it is the one that is told."""
    publishes = settings.pull_request
    access = await before_a_session(access, repository, publishes=publishes, issue=number is not None)
    transport = reach(access, access.clone_url(repository), publishes=publishes)
    origins: list[Origin] = []
    issues: list[Issue] = []
    refused: list[ConfigError] = []

    async def look() -> None:
        try:
            origins.append(await of_url(git, transport, settings.base))
        except ConfigError as error:
            refused.append(error)

    async def read(number: int) -> None:
        issues.append(await read_issue(access, repository, number))

    async with task_group() as tasks:
        tasks.start_soon(look)
        if publishes:

            async def check() -> None:
                await check_repository(access, repository, publishes=True)

            tasks.start_soon(check)
        if number is not None:
            tasks.start_soon(read, number)
    if refused:
        raise refused[0]
    return origins[0], issues[0] if issues else None


def _with_token_in(url: str, access: GitHubAccess) -> GitHubAccess:
    """A token that was given as the password of the URL, when no variable has one."""
    password = urlsplit(url).password if "://" in url else None
    if access.token is not None or not password:
        return access
    return GitHubAccess(access.api_url, unquote(password), "the URL")
