from __future__ import annotations

from pathlib import Path

import pytest

from tests.sessions.rig import Rig, make_origin

GREETING = "def greet(name):\n    return 'hey ' + name\n"


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    """A session's surroundings: an origin with a tiny program."""
    return Rig(tmp_path, make_origin(tmp_path, {"greet.py": GREETING, "README.md": "# Greeter\n"}))
