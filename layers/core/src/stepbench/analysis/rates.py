"""Events in short bins, so that a gap in the load or in the answers can be seen."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stepbench.analysis.windows import NS_PER_S
from stepbench.contracts.drawn import RateBins
from stepbench.drivers.protocol import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from stepbench.analysis.evidence import Evidence
    from stepbench.records.joined import Joined

BIN_S = 0.1
MAX_BINS = 20_000
"""Half an hour of bins; those of a longer phase are wider."""


@dataclass(frozen=True)
class PhaseBins:
    """The whole bins of a phase."""

    phase: int
    name: str
    start_ns: int
    bin_ns: int
    bins: int

    def count(self, times_ns: NDArray[np.int64]) -> NDArray[np.int64]:
        """How many of the times lie in each bin; what lies before or after is in none."""
        place = (times_ns - self.start_ns) // self.bin_ns
        inside = place[(place >= 0) & (place < self.bins)]
        counts: NDArray[np.int64] = np.bincount(inside, minlength=self.bins)
        return counts

    def sum(self, joined: Joined, times_ns: Callable[[Joined], NDArray[np.int64]]) -> NDArray[np.int64]:
        """The same for a time of each of the phase's events."""
        counts = np.zeros(self.bins, np.int64)
        for part in joined.of_phase(self.phase).parts():
            counts += self.count(times_ns(part))
        return counts


def stepped_phases(evidence: Evidence, bin_s: float = BIN_S, max_bins: int = MAX_BINS) -> Iterator[PhaseBins]:
    """Of the measured phases that were planned and have more than one load step."""
    for phase, planned in enumerate(evidence.spec.plan.phases):
        if planned.measured and len(planned.load) > 1 and phase in evidence.records.starts_ns:
            length_s = evidence.records.offered_s(phase)
            wider = max(1, math.ceil(length_s / bin_s / max_bins))
            bin_ns = round(bin_s * wider * NS_PER_S)
            bins = math.floor(length_s * NS_PER_S / bin_ns + 1e-9)
            yield PhaseBins(phase, planned.name, evidence.records.starts_ns[phase], bin_ns, bins)


def rates(evidence: Evidence) -> tuple[RateBins, ...]:
    """Due, sent and acknowledged events of each stepped phase."""
    return tuple(
        RateBins(
            phase=stepped.name,
            bin_s=stepped.bin_ns / NS_PER_S,
            offered=tuple(stepped.sum(evidence.joined, lambda part: part.t0_ns[part.offered]).tolist()),
            sent=tuple(stepped.sum(evidence.joined, lambda part: part.t1_ns).tolist()),
            acknowledged=tuple(acknowledged(evidence, stepped).tolist()),
        )
        for stepped in stepped_phases(evidence)
    )


def acknowledged(evidence: Evidence, stepped: PhaseBins) -> NDArray[np.int64]:
    """How many of the phase's events were acknowledged in each bin, by t2."""
    return stepped.sum(evidence.joined, lambda part: part.t2_ns[part.outcome == Outcome.OK])
