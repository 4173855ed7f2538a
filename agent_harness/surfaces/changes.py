"""Which paths a session may change: asked by the tools before they write, and again of every commit before it is pushed."""

from __future__ import annotations

from agent_harness.surfaces.globs import parse_globs
from agent_harness.surfaces.paths import shown
from agent_harness.task import Permits

# Forges run these with the repository's own secrets as soon as a branch that holds them is pushed: before anybody reviews it.
WORKFLOW_FOLDERS = (".github/workflows/", ".forgejo/workflows/", ".gitea/workflows/", ".circleci/", ".woodpecker/", ".buildkite/")
WORKFLOW_FILES = (
    ".gitlab-ci.yml",
    ".woodpecker.yml",
    ".travis.yml",
    "azure-pipelines.yml",
    "bitbucket-pipelines.yml",
    "Jenkinsfile",
)


def is_workflow(path: str) -> bool:
    """Whether a forge runs this file by itself. Case does not matter: file systems differ in it."""
    folded = path.casefold()
    return folded.startswith(WORKFLOW_FOLDERS) or folded in {name.casefold() for name in WORKFLOW_FILES}


class Changeable:
    """Says no, and why, to paths outside the scope and to workflow files that are not permitted.

    A scope's glob without a slash means a name at any depth, one with a slash counts from the root, and what lies below a match
    belongs to it. Case matters: `src` is not `SRC`.
    """

    def __init__(self, permits: Permits | None = None) -> None:
        """Take what the person permits.

        Raises:
            ConfigError: a glob is empty, leads outside, or can't be read.
        """
        self.permits = permits or Permits()
        self._scope = [glob for text in self.permits.scope for glob in parse_globs(text, folds=False)]

    def in_scope(self, path: str) -> bool:
        """Whether a change of this path is within the scope; without one everything is."""
        return not self._scope or any(glob.covers(path.split("/")) for glob in self._scope)

    def refusal(self, path: str) -> str | None:
        """One sentence for the model when this path, relative to the root, may not be changed; else None."""
        if not self.in_scope(path):
            globs = ", ".join(shown(glob) for glob in self.permits.scope)
            return f"{shown(path)} is outside what this session may change: {globs}."
        if is_workflow(path) and not self.permits.workflows:
            return f"{shown(path)} runs on the forge as soon as it is pushed, and this session may not change such files."
        return None
