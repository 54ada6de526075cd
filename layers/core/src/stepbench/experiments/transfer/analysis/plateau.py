"""Find from which size on the rate rises no more."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from stepbench.contracts.transfer.result import TransferPlateau
from stepbench.digits import counted
from stepbench.experiments.transfer.analysis.cells import BUSY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepbench.contracts.transfer.result import TransferCell

TOLERANCE = 0.05
"""Rates that differ by less are on the same level: the published rate of S3 rises by 4 % from 250 to 750 MiB."""
LEAST = 10
"""Transfers of each size: means of fewer differ by so much that any rate would seem to have levelled off."""
_ERRORS = 2.5
"""Standard errors that a difference of means has to have; eight sizes are compared with each."""


def find_plateau(cells: Sequence[TransferCell]) -> TransferPlateau:
    """
    Return the smallest size that no larger one surpasses by more than 5 %, as far as means and their errors can tell.

    Args:
        cells: of one pair, by size.

    Source:
        Welch (1947), Biometrika 34 (difference of two means with variances of their own).
    """
    known = [cell for cell in cells if cell.mean_mib_per_s.low is not None]
    if len(known) < 2:  # noqa: PLR2004 -- a rise has two ends
        reason = f"{counted(len(known), 'size')} measured < 2"
        return TransferPlateau(from_mib=None, mib_per_s=None, rises=False, reason=reason)
    if (fewest := min(cell.n for cell in known)) < LEAST:
        return TransferPlateau(from_mib=None, mib_per_s=None, rises=False, reason=f"n={fewest} < {LEAST}")
    rises = _surpasses(known[-1], known[0], 0.0)
    start = next(
        place
        for place, cell in enumerate(known)
        if not any(_surpasses(larger, cell, TOLERANCE) for larger in known[place:])
    )
    if start == len(known) - 1:
        return TransferPlateau(from_mib=None, mib_per_s=None, rises=rises)
    level = known[start:]
    shares = [cell.cpu_share for cell in level if cell.cpu_share is not None]
    return TransferPlateau(
        from_mib=level[0].file_size_mib,
        mib_per_s=float(np.mean([cell.mean_mib_per_s.value for cell in level])),
        rises=rises,
        client_limit=max(shares) >= BUSY if shares else None,
    )


def _surpasses(larger: TransferCell, smaller: TransferCell, tolerance: float) -> bool:
    """Return whether one mean is above another by more than a share of it, beyond chance."""
    more = (larger.mean_mib_per_s.value or 0) - (1 + tolerance) * (smaller.mean_mib_per_s.value or 0)
    return more > _ERRORS * math.hypot(_error(larger), (1 + tolerance) * _error(smaller))


def _error(cell: TransferCell) -> float:
    """Return the mean's standard error, from half its interval's length; Student's factor is near to two."""
    estimate = cell.mean_mib_per_s
    return ((estimate.high or 0) - (estimate.low or 0)) / 4
