"""One deployed stack on the emulator that STEPBENCH_EMULATOR names, as for the end-to-end tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.end_to_end.conftest import deployment, installed

from stepbench_tools.local.paths import Paths

__all__ = ["deployment", "installed"]


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> Paths:
    """Return the paths of this clone, with a run directory of the test's own."""
    return Paths(Path(__file__).parents[2], tmp_path_factory.mktemp("home"))
