"""Every error this package raises, drawn as a tree.

    HarnessError            for the person: one line, an exit code, what to do next
    ├── ConfigError         2  wrong usage or configuration; nothing was spent or created
    ├── SurfaceError        5  the place where commands run failed (never the command itself)
    │   └── SurfaceLost     5  it is gone and can't come back
    ├── ModelError          5 when retryable, else 1: the model could not be reached, or refused the request
    ├── BudgetExceeded      3  a ceiling would be crossed
    ├── NeedsHuman          4  a person has to decide before this can go on
    └── PublishError        5 when retryable, else 1: the work could not be pushed or proposed; says where it lies
    ToolFailed              for the model: never leaves the dispatcher

Anything else is a bug, for the developer: only the session's edge catches it, and the trace survives it.
"""

from __future__ import annotations


class HarnessError(Exception):
    """Something a person can act on. `str()` is one line that says what was found and what to do."""

    exit_code: int = 1
    reason: str = "failed"

    def __init__(self, message: str, *, reason: str | None = None) -> None:
        super().__init__(message)
        if reason is not None:
            self.reason = reason


class ConfigError(HarnessError):
    """Wrong usage or configuration, found before anything was spent or created."""

    exit_code = 2
    reason = "configuration"


class SurfaceError(HarnessError):
    """The sandbox failed, not the command in it. Its text is never shown as a command's output."""

    exit_code = 5
    reason = "surface"


class SurfaceLost(SurfaceError):
    """The sandbox is gone; every later call on it raises this again."""

    reason = "surface_lost"


class ModelError(HarnessError):
    """The model could not be reached, or refused the request.

    Attributes:
        retryable: trying the same request again may work.
        status: HTTP status, None when no answer came.
        error_type: the provider's own word for it (`overloaded_error`), or the exception's name.
        request_id: what the provider calls this request, for its support desk.
        retry_after_s: how long the provider asked us to wait, in seconds.
        charged: the provider may have done work that it bills (the stream had begun, or its fate is unknown).
    """

    def __init__(
        self,
        message: str,
        *,
        retryable: bool,
        status: int | None = None,
        error_type: str = "",
        request_id: str = "",
        retry_after_s: float | None = None,
        charged: bool = False,
    ) -> None:
        super().__init__(message, reason="provider" if retryable else "provider_refused")
        self.retryable = retryable
        self.status = status
        self.error_type = error_type
        self.request_id = request_id
        self.retry_after_s = retry_after_s
        self.charged = charged
        self.exit_code = 5 if retryable else 1


class BudgetExceeded(HarnessError):
    """A request was not sent, or a turn not begun, because it could cross a ceiling.

    Attributes:
        kind: `max_turns`, `max_tokens`, `max_cost`, `max_seconds` or `compact_at`; also the outcome's reason.
        flag: the option that raises this ceiling.
    """

    exit_code = 3

    def __init__(self, kind: str, flag: str, message: str) -> None:
        super().__init__(message, reason=kind)
        self.kind = kind
        self.flag = flag


class NeedsHuman(HarnessError):
    """A person has to decide: a hook refused the task or ended the run."""

    exit_code = 4
    reason = "needs_human"


class PublishError(HarnessError):
    """The finished work could not be pushed or proposed. The message says where it lies and how to finish by hand.

    Attributes:
        retryable: publishing the same work again may succeed.
    """

    reason = "publish"

    def __init__(self, message: str, *, reason: str | None = None, retryable: bool = False) -> None:
        super().__init__(message, reason=reason)
        self.retryable = retryable
        self.exit_code = 5 if retryable else 1


class ToolFailed(Exception):
    """A tool call could not do what was asked. The text is the model's answer: what is wrong, and what to do instead."""
