"""
How many modes the rates of each cell have, and those of a pair's large files together.

One error for all that a report finds: 5 %, shared out over kinds of findings, and of each kind over pairs. Within a
pair's share, tests of several cells share an error by Hochberg's rule, which holds for tests that are independent, or
depend on each other as cells and all sizes together do.

Source:
    Dunn (1961), Journal of the American Statistical Association 56 (shares); Hochberg (1988), Biometrika 75(4); Sarkar
    (1998), Annals of Statistics 26(2) (positive dependence).
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stepbench.contracts.transfer.result import TransferMode, TransferModes
from stepbench.errors import InsufficientSampleError
from stepbench.experiments.transfer.analysis.cells import find_stalls
from stepbench.experiments.transfer.analysis.levels import is_notable
from stepbench.stats.modality import ModeTest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from stepbench.contracts.transfer.result import TransferChange, TransferDependence
    from stepbench.experiments.transfer.analysis.reads import Reads

MODES_ERROR, HOURS_ERROR, WEEKDAYS_ERROR, CHANGES_ERROR = 0.02, 0.01, 0.01, 0.01
"""They add up to 5 %. Modes have most, since there are as many tests as cells."""


def found_among(p_values: Sequence[float | None], level: float) -> tuple[bool, ...]:
    """Return which of several tests reject, so that one of those that should not does with at most this probability."""
    ascending = sorted(value for value in p_values if value is not None)
    limit = -1.0
    for place, value in enumerate(ascending):
        if value <= level / (len(ascending) - place):
            limit = value
    return tuple(value is not None and value <= limit for value in p_values)


LEAST_READS = 50
"""Fewer tell nothing of modes; Hall and York's calibration has been tried on as few."""
FURTHER = 0.01
"""The level of the test for a third and a fourth mode, once there are two."""
LEAST_SHARE = 0.02
"""Two transfers that are alike are no mode, as single values beyond the outer 2 % are none."""
MOST_HOURS = 6
"""If more hours differ, they are not left out: what remained would be another day."""
LARGE_MIB = 100
"""The start matters little for larger files, so that those of several sizes are analysed together."""


class Steady(NamedTuple):
    """It is the longest span without a notable change, ns since the epoch, and the hours of the day that differ."""

    begin_ns: int
    end_ns: int
    differing: tuple[int, ...]

    def choose(self, cell: Reads) -> Reads:
        """
        Return the measured reads of a cell to judge its modes by; of each sandbox the first one.

        They are of one level, of no hour that differs, and have never stood still.
        """
        began_ns, moved = cell.columns.began_at_ns, np.ones(cell.n, np.bool_)
        moved[find_stalls(cell).reads] = False
        within = (began_ns >= self.begin_ns) & (began_ns < self.end_ns)
        return cell.take(within & moved & ~np.isin(cell.hours, self.differing)).one_a_sandbox


def find_steady(reads: Reads, changes: Sequence[TransferChange], hours: TransferDependence) -> Steady:
    """
    Return what of a pair's measured reads to judge modes by.

    A change of level makes two modes, a slow hour and stalls one more, which say nothing new. Levels are not moved onto
    each other instead: where modes trade shares, that would make modes of its own.
    """
    notable = [round(change.at.timestamp() * 1e9) for change in changes if is_notable(change)]
    began_ns = reads.columns.began_at_ns if reads.n else np.zeros(1, np.int64)
    edges = [int(began_ns.min()), *notable, int(began_ns.max()) + 1]
    begin_ns, end_ns = max(pairwise(edges), key=lambda span: span[1] - span[0])
    differing = tuple(level.at for level in hours.levels if level.differs)
    return Steady(begin_ns, end_ns, differing if len(differing) <= MOST_HOURS else ())


def find_modes(
    cells: Sequence[Reads], level: float, rng: np.random.Generator
) -> tuple[tuple[TransferModes, ...], TransferModes]:
    """
    Return the modes of each cell of a pair, and those of its files of 100 MiB and more together.

    Together, each size's logarithms lie about the mean of all; a pair without such files has all its sizes together.

    Args:
        cells: measured reads of each size, as `Steady` chooses them.
        level: the error that all of these share.
        rng: for the resamples.
    """
    samples = [*(cell.rates for cell in cells), _together(cells)]
    tests = [_test(rates, rng) for rates in samples]
    p_values = [None if isinstance(test, str) else test.p_value for test in tests]
    found = [
        TransferModes(n=rates.size, reason=test) if isinstance(test, str) else _modes(test, found=several)
        for rates, test, several in zip(samples, tests, found_among(p_values, level), strict=True)
    ]
    return tuple(found[:-1]), found[-1]


def _test(rates: NDArray[np.float64], rng: np.random.Generator) -> ModeTest | str:
    try:
        return ModeTest(rates, rng, least=LEAST_READS, fine=True)
    except InsufficientSampleError as shortage:
        return str(shortage)


def _together(cells: Sequence[Reads]) -> NDArray[np.float64]:
    large = [cell for cell in cells if cell.n and cell.sizes_mib[0] >= LARGE_MIB] or cells
    logs = [np.log(cell.rates) for cell in large if cell.n]
    if not logs:
        return np.empty(0)
    middle = float(np.mean([each.mean() for each in logs]))
    together: NDArray[np.float64] = np.exp(np.concatenate([each - each.mean() + middle for each in logs]))
    return together


def _modes(test: ModeTest, *, found: bool) -> TransferModes:
    modes = test.modes(significance=2.0 if found else 0.0, further=FURTHER)
    listed = _merge([TransferMode(mib_per_s=at, share=share) for at, share in zip(modes.at, modes.shares, strict=True)])
    return TransferModes(n=modes.n, p_value=modes.p_value, found=found and len(listed) > 1, modes=listed)


def _merge(modes: list[TransferMode]) -> tuple[TransferMode, ...]:
    """Give the share of a mode of a few transfers to the one that is nearest to it."""
    kept = [mode for mode in modes if mode.share >= LEAST_SHARE]
    shares = [mode.share for mode in kept]
    for mode in modes:
        if mode.share < LEAST_SHARE:
            away = [abs(np.log(mode.mib_per_s / other.mib_per_s)) for other in kept]
            shares[int(np.argmin(away))] += mode.share
    return tuple(TransferMode(mib_per_s=mode.mib_per_s, share=share) for mode, share in zip(kept, shares, strict=True))
