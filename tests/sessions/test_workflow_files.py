"""A workflow file runs as soon as it is pushed, so nothing is asked of the forge's git before somebody permits it."""

from __future__ import annotations

import pytest

from agent_harness.demo.script import call, in_order, say
from tests.fakes.github_forge_state import PUBLISHER
from tests.sessions.test_github import Place, place

__all__ = ["place"]
pytestmark = pytest.mark.anyio
WRITE = call("run_shell", {"command": "mkdir -p .github/workflows && echo 'on: push' > .github/workflows/x.yml"})
COMMIT = call("git", {"command": "commit", "args": ["-m", "CI"]})


async def test_it_is_refused_by_name_before_the_first_byte_of_a_push(place: Place) -> None:
    early = call("edit_file", {"path": ".github/workflows/x.yml", "old_text": "", "new_text": "on: push\n"})
    ended = await place.run(in_order(early, WRITE, COMMIT, say("Done.")))
    edited, _, committed = (str(record["content"]) for record in place.rig.of("tool_result"))
    assert "runs on the forge" in edited
    assert 'not staged: ".github/workflows/x.yml" runs on the forge' in committed
    assert (ended.outcome, ended.reason) == ("failed", "workflow_file")
    assert ".github/workflows/x.yml" in ended.summary
    assert "--allow-workflows" in ended.summary
    assert place.forge.asked("POST", "git-receive-pack") == []
    assert place.forge.asked("GET", "git-receive-pack") == []
    assert place.branches() == {"main"}
    assert place.pulls == []
    refused = place.publish("--allow-workflows")
    assert refused.returncode == 1
    assert "the token may not change workflow files" in refused.stderr, "the forge has a say as well"
    done = place.publish("--allow-workflows", GITHUB_TOKEN=place.forge.token(permissions={**PUBLISHER, "workflows": "write"}))
    assert done.returncode == 0, done.stderr
    (pull,) = place.pulls
    assert "`.github/workflows/x.yml`" in str(pull.body)
