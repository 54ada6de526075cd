"""What became of all reads."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from stepbench.contracts.transfer.result import TransferAccounting
from stepbench.model.errors import most_frequent
from stepbench.records.formats.transfer_columns import FAILED, OK, UNKNOWN, UNTOLD

if TYPE_CHECKING:
    from stepbench.records.formats.transfer_columns import TransferColumns


def account(columns: TransferColumns, offered: int | None) -> TransferAccounting:
    """
    Count outcomes, starts and digests.

    Args:
        columns: all rows; of a process that was tried twice, those of one attempt.
        offered: how many reads were to be made; None where nobody knows.
    """
    errors = Counter(columns.error.table[code] for code in columns.error.codes[columns.outcome != OK].tolist())
    return TransferAccounting(
        offered=offered,
        ok=_count(columns.outcome == OK),
        failed=_count(columns.outcome == FAILED),
        unknown=_count(columns.outcome == UNKNOWN),
        missing=None if offered is None else max(offered - columns.size, 0),
        cold=_count(columns.cold == 1),
        warm=_count(columns.cold == 0),
        unknown_start=_count(columns.cold == UNTOLD),
        wrong_digest=_count(columns.digest_ok == 0),
        untold_digest=_count(columns.digest_ok == UNTOLD),
        errors=most_frequent(errors),
    )


def _count(chosen: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> int:
    return int(np.count_nonzero(chosen))
