"""The anchor of a writer's clock."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from stepbench.clock import AnchoredClock, covered

if TYPE_CHECKING:
    from collections.abc import Sequence

OFFSET_NS = 10**18


class Interrupted:
    """Stands for `time`: each reading takes 100 ns, and after some of them the process waits for 32 ms."""

    def __init__(self, waits_after: Sequence[int]) -> None:
        self._waits_after = frozenset(waits_after)
        self._readings = 0
        self._now_ns = 0

    def monotonic_ns(self) -> int:
        """Return the time."""
        self._readings += 1
        now_ns = self._now_ns
        self._now_ns += 100 + 32_000_000 * (self._readings in self._waits_after)
        return now_ns

    def time_ns(self) -> int:
        """Return the time of the other clock."""
        return self.monotonic_ns() + OFFSET_NS


@pytest.mark.parametrize("waits_after", [(), (1,), (2,), (1, 5, 8, 11)])
def test_an_interruption_in_the_middle_of_a_look_moves_no_anchor(
    monkeypatch: pytest.MonkeyPatch, waits_after: Sequence[int]
) -> None:
    """On a busy machine it would put all writes of a slice off by 16 ms."""
    clock = Interrupted(waits_after)
    monkeypatch.setattr("stepbench.clock.time", clock)
    anchored = AnchoredClock()
    assert anchored.now_ns() - clock.time_ns() == pytest.approx(0, abs=200)
    assert anchored.drift_ns() == pytest.approx(0, abs=200)


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
