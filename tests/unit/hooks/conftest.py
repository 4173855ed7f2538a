from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.hooks.rig import HookRig


@pytest.fixture
def rig(tmp_path: Path) -> HookRig:
    return HookRig(tmp_path)
