from __future__ import annotations

import pytest

from stepbench.model.spans import covered


@pytest.mark.parametrize(
    ("spans", "length"),
    [
        ([], 0),
        ([(3, 5)], 2),
        ([(7, 9), (0, 4)], 6),
        ([(0, 10), (2, 3), (10, 15)], 15),
        ([(-4, -1), (-2, 2)], 6),
        ([(5, 5), (6, 5)], 0),
        ([(0.5, 1.5), (1.0, 2.25)], 1.75),
    ],
)
def test_time_counts_once(spans: list[tuple[float, float]], length: float) -> None:
    """Apart, within each other, side by side, before zero, and empty."""
    assert covered(spans) == length
