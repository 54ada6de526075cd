"""
Reads as their processes print them into their log: the second source, which depends on no bucket.

One JSON line a read, printed as soon as it has ended:

    stepbench.transfer   the trial's tag
    row                  the row as `TransferRow` dumps it, but without `mib_ns`
"""

from __future__ import annotations

import json

from stepbench.contracts.transfer.rows import TransferRow
from stepbench.errors import CorruptRecordsError

MARK = "stepbench.transfer"


def transfer_filter(tag: str) -> str:
    """Return the `filterPattern` that finds the lines of one trial; a function serves all of the stack."""
    return f'"{MARK}" "{tag}"'


def transfer_line(tag: str, row: TransferRow) -> str:
    """Return the line of one read."""
    return json.dumps({MARK: tag, "row": row.model_dump(mode="json", exclude={"mib_ns"})})


def parse_transfer_line(line: str) -> tuple[str, TransferRow]:
    """
    Return the trial's tag and the row, whose `mib_ns` is empty.

    Raises:
        CorruptRecordsError: the line is none of these.
    """
    try:
        found = json.loads(line)
        return str(found[MARK]), TransferRow.model_validate(found["row"])
    except (ValueError, KeyError, TypeError) as error:
        message = f"a log line with {MARK} cannot be read: {error}"
        raise CorruptRecordsError(message) from error
