"""One conversation with GitHub's REST interface: off the event loop, with an end in sight, and with reads alone repeated.

PyGithub blocks, and by itself repeats writes whose answers were lost. So it is imported and used in a thread of its own for each
request, told never to repeat anything, and every wait is the event loop's: a cancelled session leaves at once.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from threading import Thread
from types import TracebackType
from typing import TYPE_CHECKING, Generic, TypeVar

import anyio
import anyio.from_thread
from anyio.lowlevel import current_token

from agent_harness.github_settings import GitHubAccess
from agent_harness.publishing.github_failures import Answer, Trouble, as_json, classify, no_answer
from agent_harness.redact import Redactor

if TYPE_CHECKING:
    from github import Github

T = TypeVar("T")
Pause = Callable[[float], Awaitable[None]]

REQUEST_TIMEOUT_S = 15  # GitHub itself gives up after about 10
READ_WAITS_S = (0.5, 2.0)  # before the second and the third attempt of a read
MAX_WAIT_S = 60.0  # a longer one that GitHub asks for is the person's to decide
API_VERSION = "2022-11-28"


class GitHubFailed(Exception):
    """A request failed; `trouble` says how, credentials removed."""

    def __init__(self, trouble: Trouble) -> None:
        super().__init__(str(trouble))
        self.trouble = trouble


class GitHubClient:
    """A client for a few requests; a context manager that closes its connections.

    Args:
        access: which GitHub, and the token; with an App and no token, what the App itself may ask.
        pause: waits that many seconds.
    """

    def __init__(self, access: GitHubAccess, pause: Pause = anyio.sleep) -> None:
        self._access = access
        self._pause = pause
        self._redact = Redactor(access.secrets).text
        self._github: Github | None = None

    def __enter__(self) -> GitHubClient:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._github is not None:
            self._github.close()

    async def read(self, ask: Callable[[Github], T]) -> T:
        """Ask something that changes nothing, at most three times.

        Args:
            ask: makes the requests with PyGithub, in a thread; what it returns must need no further request.

        Raises:
            GitHubFailed: refused, or no answer after the last attempt.
        """
        for wait_s in READ_WAITS_S:
            try:
                return await self.once(ask)
            except GitHubFailed as failure:
                asked_s = failure.trouble.wait_s or 0.0
                if not failure.trouble.retryable or asked_s > MAX_WAIT_S:
                    raise
                await self._pause(max(wait_s, asked_s))
        return await self.once(ask)

    async def once(self, ask: Callable[[Github], T]) -> T:
        """Ask exactly once; for what changes something.

        Raises:
            GitHubFailed: refused, or no answer; `trouble.unclear` when it may have been done all the same.
        """
        try:
            return await off_the_loop(lambda: self._ask(ask))
        except GitHubFailed as failure:
            raise GitHubFailed(self._clean(failure.trouble)) from None

    def _clean(self, trouble: Trouble) -> Trouble:
        said = self._redact(trouble.said)
        return Trouble(trouble.code, said, trouble.advice, trouble.retryable, trouble.unclear, trouble.wait_s)

    def _ask(self, ask: Callable[[Github], T]) -> T:
        """In the thread: one request, and its failure in our terms. PyGithub asserts and raises the requests library's errors."""
        import requests
        from github import BadAttributeException, GithubException

        if self._github is None:
            self._github = self._open()
        try:
            return ask(self._github)
        except GithubException as error:
            headers = {name.lower(): value for name, value in (error.headers or {}).items()}
            raise GitHubFailed(classify(Answer(error.status, headers, as_json(error.data)), time.time())) from error
        except requests.RequestException as error:
            raise GitHubFailed(no_answer(f"no answer from {self._access.api_url} ({type(error).__name__})")) from error
        except (AssertionError, RuntimeError, ValueError, BadAttributeException) as error:
            said = f"{self._access.api_url} answered something that GitHub would not ({type(error).__name__}: {error})"
            raise GitHubFailed(no_answer(said[:400])) from error

    def _open(self) -> Github:
        import github
        from github.Auth import AppAuth, Auth, Token

        # Its own handler would write to the terminal, and at its lowest level whole bodies.
        logger = logging.getLogger("github")
        logger.handlers.clear()
        logger.setLevel(logging.WARNING)
        token, app = self._access.token, self._access.app
        auth: Auth | None = None if token is None else Token(token)
        if auth is None and app is not None:
            _check_key(app.private_key)
            auth = AppAuth(app.id, app.private_key)
        return github.Github(
            auth=auth,
            base_url=self._access.api_url,
            timeout=REQUEST_TIMEOUT_S,
            retry=None,
            per_page=100,
            seconds_between_requests=None,
            seconds_between_writes=None,
            user_agent="agent-harness",
            api_version=API_VERSION,
        )


def _check_key(pem: str) -> None:
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        load_pem_private_key(pem.encode(), None)
    except (ValueError, TypeError) as error:
        advice = "give the .pem file as it was downloaded, without a passphrase"
        raise GitHubFailed(Trouble("bad_key", f"the App's private key cannot be read ({type(error).__name__})", advice)) from None


class _Result(Generic[T]):
    """What a thread brings back."""

    value: T
    error: BaseException | None = None


async def off_the_loop(call: Callable[[], T]) -> T:
    """The call's result or error, from a thread that is left to itself on cancellation and keeps no program from ending."""
    done, token, result = anyio.Event(), current_token(), _Result[T]()

    def work() -> None:
        try:
            result.value = call()
        except BaseException as error:  # noqa: BLE001 - handed over to the one who waits
            result.error = error
        try:
            anyio.from_thread.run_sync(done.set, token=token)
        except RuntimeError:
            return  # the loop is gone, and with it the one who waited

    Thread(target=work, name="github", daemon=True).start()
    await done.wait()
    if result.error is not None:
        raise result.error
    return result.value
