from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from tests.faults.cases import STORES
from tests.faults.conftest import CLEAN
from tests.faults.judging import NOT_FAULTS
from tests.faults.moments import clean_plan

if TYPE_CHECKING:
    from tests.faults.surroundings import Surroundings

pytestmark = [pytest.mark.faults, pytest.mark.timeout(900)]


def test_a_run_without_a_fault_succeeds(
    clean_run: int, surroundings: Surroundings, record_property: Callable[[str, object], None]
) -> None:
    """Caveats that cry wolf are not read. How many name a fault is told at the end, and decides nothing."""
    store = STORES[clean_run % len(STORES)]
    finished = surroundings.deployment.run(clean_plan(f"clean-{clean_run}", store))
    assert finished.code == 0, finished.stderr
    caveats = [caveat for caveat in finished.trial["caveats"] if caveat["kind"] not in NOT_FAULTS]
    record_property(CLEAN, [f"clean-{clean_run}-{store}", [f"{each['kind']}: {each['text']}" for each in caveats]])
