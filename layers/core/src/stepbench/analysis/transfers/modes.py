"""How many modes the rates of each cell have, and those of a pair's large files together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepbench.analysis.transfers import family
from stepbench.contracts.transfer_result import TransferMode, TransferModes
from stepbench.errors import InsufficientSampleError
from stepbench.stats.modality import ModeTest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from stepbench.analysis.transfers.reads import Reads

LEAST = 50
"""Fewer tell nothing of modes; Hall and York's calibration has been tried on as few."""
FURTHER = 0.01
"""At which level a third mode is taken for one, and a fourth, once there are two."""
LARGE_MIB = 100
"""Of files so large the start matters little, so that those of several sizes can be looked at together."""


def find_modes(
    cells: Sequence[Reads], level: float, rng: np.random.Generator
) -> tuple[tuple[TransferModes, ...], TransferModes]:
    """
    Return the modes of each cell of a pair, and those of its files of 100 MiB and more together.

    Reads of one sandbox are not independent: its first one counts. Together, each size's logarithms lie about the mean
    of all; a pair without such files has all its sizes together.

    Args:
        cells: measured reads of each size.
        level: the error that all of these share.
        rng: for the resamples.
    """
    samples = [cell.one_a_sandbox for cell in cells]
    tests = [_test(sample.rates, rng) for sample in samples] + [_test(_together(samples), rng)]
    p_values = [None if isinstance(test, str) else test.p_value for test in tests]
    found = [
        TransferModes(reason=test) if isinstance(test, str) else _modes(test, found=several)
        for test, several in zip(tests, family.found_among(p_values, level), strict=True)
    ]
    return tuple(found[:-1]), found[-1]


def _test(rates: NDArray[np.float64], rng: np.random.Generator) -> ModeTest | str:
    try:
        return ModeTest(rates, rng, least=LEAST, fine=True)
    except InsufficientSampleError as shortage:
        return str(shortage)


def _together(samples: Sequence[Reads]) -> NDArray[np.float64]:
    large = [sample for sample in samples if sample.n and sample.sizes_mib[0] >= LARGE_MIB] or samples
    logs = [np.log(sample.rates) for sample in large if sample.n]
    if not logs:
        return np.empty(0)
    middle = float(np.mean([each.mean() for each in logs]))
    together: NDArray[np.float64] = np.exp(np.concatenate([each - each.mean() + middle for each in logs]))
    return together


def _modes(test: ModeTest, *, found: bool) -> TransferModes:
    modes = test.modes(significance=2.0 if found else 0.0, further=FURTHER)
    listed = tuple(TransferMode(mib_per_s=at, share=share) for at, share in zip(modes.at, modes.shares, strict=True))
    return TransferModes(p_value=modes.p_value, found=found and len(listed) > 1, modes=listed)
