"""The forge for remotes that have none: the pull request is two files in the session's folder."""

from __future__ import annotations

import json
import os
from pathlib import Path

import anyio.to_thread

from agent_harness.errors import PublishError
from agent_harness.events import JsonValue
from agent_harness.publishing.base import Proposal, PullRequest
from agent_harness.publishing.text import code, inline
from agent_harness.task import Wishes

TEXT, DATA = "pull-request.md", "pull-request.json"


class LocalForge:
    """Writes `pull-request.md` for people and `pull-request.json` for machines.

    Args:
        folder: the session's folder.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def look(self, branch: str) -> str:
        """Nothing: the files are the harness's own."""
        del branch
        return ""

    async def open_pull_request(self, proposal: Proposal) -> PullRequest:
        """Write both files, or find them as they would be written; `url` is the text's `file://` URL.

        Raises:
            PublishError: the folder cannot be written; the branch is pushed all the same.
        """
        return await anyio.to_thread.run_sync(self._open, proposal)

    async def adorn(self, opened: PullRequest, wishes: Wishes) -> tuple[str, ...]:
        """Says what a file cannot have."""
        del opened
        named = [f"{len(each)} {what}" for each, what in ((wishes.labels, "labels"), (wishes.reviewers, "reviewers")) if each]
        return (f"{' and '.join(named)} wanted: a pull request that is a file has none",) if named else ()

    def _open(self, proposal: Proposal) -> PullRequest:
        folder = self._folder.absolute()
        url = (folder / TEXT).as_uri()
        data: dict[str, JsonValue] = {
            "url": url,
            "number": None,
            "state": "open",
            "draft": proposal.draft,
            "title": proposal.title,
            "branch": proposal.branch,
            "base": proposal.base,
            "head": proposal.head,
            "body": proposal.body,
        }
        heading = f"# {inline(proposal.title)}\n\n"
        merge = f"{code(proposal.branch)} into {code(proposal.base)} at {code(proposal.head)}"
        try:
            # The data comes last: where it is, the text is whole too.
            _replace(folder / TEXT, f"{heading}{merge}{' (draft)' if proposal.draft else ''}\n\n{proposal.body}")
            _replace(folder / DATA, json.dumps(data, ensure_ascii=False, indent=2) + "\n")
        except OSError as error:
            raise PublishError(
                f"the branch {proposal.branch!r} is pushed, but its pull request cannot be written to {str(folder)!r}:"
                f" {error.strerror}; free some space or fix its permissions, then publish again",
                reason="local_forge",
            ) from error
        return PullRequest(url, None, proposal.branch, proposal.head)


def _replace(path: Path, text: str) -> None:
    """Put a whole file in place, or leave what was there; a file that is already right is not touched."""
    content = text.encode("utf-8")
    if path.is_file() and path.read_bytes() == content:
        return
    part = path.with_name(f".{path.name}.part")
    with part.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)
