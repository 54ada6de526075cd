"""Made-up series of runs whose truth is known: four kinds of noise, with or without a change of level or a drift."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np

Kind = Literal["normal", "spikes", "AR(1)", "two modes"]
KINDS: tuple[Kind, ...] = ("normal", "spikes", "AR(1)", "two modes")
RUNS = 100
SD, SPIKE_SHARE, SPIKE = 0.03, 0.05, 1.3
CORRELATION = 0.5
MODE_SD, SLOW_SHARE, SLOW = 0.02, 0.3, 1.1
EARLIEST, LATEST = 40, 80
"""A planted change begins at a run between these."""


class Truth(NamedTuple):
    """What is planted: a ratio, once (`shift`) or with every run (`drift`); `at` the first run concerned."""

    at: int = RUNS
    shift: float = 1.0
    drift: float = 1.0

    def level(self, run: int) -> float:
        """Return the logarithm of the level in a scheduled run."""
        return math.log(self.shift) + (run - self.at + 1) * math.log(self.drift) if run >= self.at else 0.0


def draw_noise(kind: Kind, rng: np.random.Generator, sd: float = SD) -> Iterator[float]:
    """Yield the logarithm of one run after the other; a confirming run is simply the next."""
    state = rng.normal(0, sd / math.sqrt(1 - CORRELATION**2))
    while True:
        match kind:
            case "normal":
                yield rng.normal(0, sd)
            case "spikes":
                yield rng.normal(0, sd) + (math.log(SPIKE) if rng.random() < SPIKE_SHARE else 0.0)
            case "AR(1)":
                yield state
                state = CORRELATION * state + rng.normal(0, sd)
            case "two modes":
                yield rng.normal(0, MODE_SD) + (math.log(SLOW) if rng.random() < SLOW_SHARE else 0.0)
