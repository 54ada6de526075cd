"""What a tuning makes of its evaluations."""

from __future__ import annotations

import pytest
from tests.samples.tuning import BROADCAST, CACHED

from stepbench_tools.local.tuning.tune import points_of
from stepbench_tools.tuning import Evaluation


def test_what_else_the_machine_did_is_no_part_of_a_configuration_s_throughput() -> None:
    """By hand: released 100 and 50, so 75; gains of 1.2 and 1.4 of that are 90 and 105, however slow the second was."""
    evaluations = [Evaluation(CACHED, (100.0,), (120.0,)), Evaluation(CACHED, (50.0,), (70.0,))]
    released, cached = points_of({BROADCAST: evaluations})
    assert (released.configuration, released.per_s) == (None, (100.0, 50.0))
    assert cached.configuration == CACHED
    assert cached.per_s == pytest.approx((90, 105))
