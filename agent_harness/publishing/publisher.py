"""From work that came out of a sandbox to an open pull request, in steps that look first and can all be repeated."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import anyio.to_thread

from agent_harness.errors import PublishError
from agent_harness.events import Event, Intent, Notice, PublishStep
from agent_harness.inert_git import Git, Transport
from agent_harness.progress import doing
from agent_harness.publishing.base import ChangedFile, Forge, Proposal, PullRequest, Report
from agent_harness.publishing.body import compose
from agent_harness.publishing.bundle import import_bundle
from agent_harness.publishing.push import Delivery, push_branch
from agent_harness.publishing.scan import Scan, scan
from agent_harness.publishing.template import find_template
from agent_harness.surfaces.base import ExportedWork
from agent_harness.task import Task

Renew = Callable[[], Awaitable[tuple[Transport, Forge]]]
OUT_OF_DATE = ("push_credentials", "github_bad_credentials")  # reasons that a fresh token may mend


class Publisher:
    """Publishes one session's work; `publish` may be called again after a crash at any point.

    Args:
        git: the runner.
        base_git: the trusted bare repository that the work started from.
        quarantine: where the work is imported to; kept, because the command to push by hand uses it.
        transport: where the branch goes.
        forge: where the pull request is opened.
        emit: records an event.
        sync: forces the record onto the disk; called before each effect outside this machine.
        redact: takes credentials out of what leaves the machine.
        renew: makes transport and forge anew, where tokens live shorter than sessions; called when the work is ready to go.

    Attributes:
        pushed: ids of commits that were pushed to the branch before, or were about to be; only on top of these is it moved.
    """

    def __init__(
        self,
        git: Git,
        base_git: Path,
        quarantine: Path,
        transport: Transport,
        forge: Forge,
        emit: Callable[[Event], object],
        sync: Callable[[], None],
        redact: Callable[[str], str],
        renew: Renew | None = None,
    ) -> None:
        self._git = git
        self._base_git = base_git
        self._quarantine = quarantine
        self._transport = transport
        self._forge = forge
        self._emit = emit
        self._sync = sync
        self._redact = redact
        self._renew = renew
        self.pushed: set[str] = set()

    async def publish(
        self,
        work: ExportedWork,
        task: Task,
        branch: str,
        report: Callable[[tuple[ChangedFile, ...]], Report],
        draft: bool = False,
    ) -> PullRequest | None:
        """Push the work and open its pull request, or find both; None when nothing differs from the base.

        Args:
            work: the untrusted export of the surface.
            task: names the base branch and commit.
            branch: the session's own branch, `agent/<id>`.
            report: makes the report for the files that the work really changes.
            draft: open it as a draft, where the forge has drafts.

        Raises:
            PublishError: refused on the way; says what to do, and where the work lies.
            GitFailed: git itself could not work here.
        """
        if work.bundle is None or work.head == task.base_commit:
            return self._nothing("the work has no commit")
        head, found = await self._take_in(work.bundle, task, branch)
        if not found.changes:
            left = f"; {branch!r} was pushed before and is left as it is" if self.pushed else ""
            return self._nothing(f"{found.commits} commits, and no file differs from {task.base!r}{left}")
        await self._renewed()
        try:
            return await self._deliver(found, head, work.bundle, task, branch, report, draft)
        except PublishError as refused:
            if self._renew is None or refused.reason not in OUT_OF_DATE:
                raise
            self._emit(PublishStep("token_refused", "another one is asked for, once"))
        await self._renewed()
        return await self._deliver(found, head, work.bundle, task, branch, report, draft)

    async def _deliver(
        self,
        found: Scan,
        head: str,
        bundle: Path,
        task: Task,
        branch: str,
        report: Callable[[tuple[ChangedFile, ...]], Report],
        draft: bool,
    ) -> PullRequest:
        """Look, push, propose, adorn; all of it can be repeated."""
        await self._push(head, branch, bundle)
        template = await find_template(self._git, self._quarantine, task.base_commit)
        made = replace(report(found.changes), remarks=found.remarks)
        title, body = await anyio.to_thread.run_sync(compose, made, template, self._redact)
        self._intend("pull_request", f"{branch} {head}")
        opened = await self._forge.open_pull_request(Proposal(title, body, branch, task.base, head, draft))
        self._emit(PublishStep("pull_request", opened.url))
        for note in await self._forge.adorn(opened, task.wishes):
            self._emit(Notice("pull_request_note", self._redact(note)))
        return opened

    async def _renewed(self) -> None:
        """The way there with a token that was made for what comes now, where tokens are made."""
        if self._renew is not None:
            self._transport, self._forge = await self._renew()

    async def push(self, work: ExportedWork, task: Task, branch: str) -> str | None:
        """Push the work so far, after every check of `publish`, and open nothing; returns its commit, None when there is none.

        Raises:
            PublishError: refused on the way.
            GitFailed: git itself could not work here.
        """
        if work.bundle is None or work.head == task.base_commit:
            return None
        head, _ = await self._take_in(work.bundle, task, branch)
        await self._renewed()
        await self._push(head, branch, work.bundle)
        return head

    async def _take_in(self, bundle: Path, task: Task, branch: str) -> tuple[str, Scan]:
        """Import the untrusted bundle and look at every commit in it."""
        with doing("looking through the work"):
            head = await import_bundle(
                self._git,
                bundle,
                ref=f"refs/heads/{branch}",
                base_git=self._base_git,
                base_commit=task.base_commit,
                quarantine=self._quarantine,
            )
            self._emit(PublishStep("imported", head))
            found = await self._scan(task, head, bundle)
        self._emit(PublishStep("scanned", f"{found.commits} commits, {len(found.changes)} files"))
        return head, found

    async def _push(self, head: str, branch: str, bundle: Path) -> None:
        """Look, then push."""
        delivery = Delivery(self._quarantine, self._transport, branch, head, bundle, frozenset(self.pushed))
        try:
            seen = await self._forge.look(branch)
        except PublishError as refused:
            raise _with_place(refused, delivery) from refused
        if seen:
            self._emit(PublishStep("looked", seen))

        def before() -> None:
            self._intend("push", f"{self._transport.safe_url} {delivery.ref} {head}")
            self.pushed.add(head)

        await push_branch(self._git, delivery, before, lambda step, detail: self._emit(PublishStep(step, detail)))

    async def _scan(self, task: Task, head: str, bundle: Path) -> Scan:
        try:
            return await scan(self._git, self._quarantine, task.base_commit, head, permits=task.permits, redact=self._redact)
        except PublishError as refused:
            raise PublishError(f"{refused}. The work is kept in {str(bundle)!r}", reason=refused.reason) from refused

    def _intend(self, effect: str, key: str) -> None:
        self._emit(Intent(effect, key))
        self._sync()

    def _nothing(self, detail: str) -> None:
        self._emit(PublishStep("nothing_to_publish", detail))


def _with_place(refused: PublishError, delivery: Delivery) -> PublishError:
    """The same refusal, and where the finished work lies."""
    return PublishError(
        f"{refused}. The work is kept in {str(delivery.bundle)!r}; to push it by hand: {delivery.by_hand}",
        reason=refused.reason,
        retryable=refused.retryable,
    )
