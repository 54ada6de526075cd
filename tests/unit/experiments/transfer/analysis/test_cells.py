from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from stepbench.contracts.transfer.result import TransferCell, TransferModes
from stepbench.contracts.transfer.rows import TransferRow
from stepbench.experiments.transfer.analysis.cells import describe_cell
from stepbench.experiments.transfer.analysis.reads import PairName, Reads
from stepbench.records.formats.transfer_columns import TransferColumns

SECOND = 10**9


def row(number: int, seconds: float, **fields: Any) -> TransferRow:  # noqa: ANN401 -- any field
    """Return a cold read of 10 MiB in so many seconds, by a sandbox of its own."""
    usual = {
        "run_id": "run",
        "trial": 0,
        "number": number,
        "attempt": 0,
        "place": 0,
        "due_at_ns": number * SECOND,
        "began_at_ns": number * SECOND,
        "platform": "lambda",
        "source": "s3",
        "path": "files/7/10.bin",
        "file_bytes": 10 * 2**20,
        "received_bytes": 10 * 2**20,
        "transfer_ns": round(seconds * SECOND),
        "digest_ok": True,
        "cold": True,
        "sandbox": str(number),
        "served": 0,
        "outcome": "ok",
    }
    return TransferRow.model_validate(usual | fields)


def describe(*rows: TransferRow) -> TransferCell:
    """Return what these show."""
    reads = Reads(TransferColumns.of(rows))
    return describe_cell(PairName("lambda", "s3"), 10, reads, TransferModes(), np.random.default_rng(1))


def test_a_rate_is_all_bytes_over_the_transfers_time() -> None:
    """10 MiB in 1, 2 and 5 s: 10, 5 and 2 MiB/s, by hand."""
    cell = describe(row(0, 1), row(1, 2), row(2, 5))
    assert cell.mean_mib_per_s.value == pytest.approx(17 / 3)
    assert cell.median_mib_per_s.value == pytest.approx(5)
    assert (cell.p50_s.value, cell.fastest_s, cell.slowest_s, cell.slowest_over_fastest) == (2, 1, 5, 5)
    assert cell.variation == pytest.approx(np.std([10, 5, 2], ddof=1) / (17 / 3))


def test_the_steady_rate_begins_with_the_first_byte() -> None:
    """10 MiB in 2.5 s, of which half a second is waiting: 5 MiB/s, and 500 ms."""
    cell = describe(row(0, 2.5, first_byte_ns=SECOND // 2))
    assert cell.steady_mib_per_s.value == pytest.approx(5)
    assert cell.first_byte_p50_ms.value == pytest.approx(500)
    assert describe(row(0, 2.5)).steady_mib_per_s.reason == "nothing was measured"


def test_p99_has_no_interval_below_368_transfers() -> None:
    """The answer leaves it out then."""
    rng = np.random.default_rng(1)
    rows = [row(number, float(np.exp(0.1 * rng.standard_normal()))) for number in range(368)]
    assert describe(*rows).p99_s.low is not None
    assert describe(*rows[1:]).p99_s.reason == "n=367 < 368"


def test_what_failed_has_no_rate_and_is_said() -> None:
    """It might have been the slowest."""
    failed, cut = (
        row(1, 0, transfer_ns=None, outcome="failed", error="reset"),
        row(2, 0, transfer_ns=None, outcome="unknown"),
    )
    cell = describe(row(0, 1), failed, cut)
    assert (cell.n, cell.failed, cell.unknown) == (1, 1, 1)
    assert "unfinished" in cell.caveats
    nothing = describe(failed)
    assert (nothing.n, nothing.mean_mib_per_s.value, nothing.fastest_s) == (0, None, None)


@pytest.mark.parametrize(
    ("fields", "caveat"),
    [
        ({"cold": None}, "warm"),
        ({"cold": False}, "warm"),
        ({"cached_share": 0.1}, "cached"),
        ({"digest_ok": False}, "wrong_digest"),
        ({"cpu_ns": int(0.9 * SECOND)}, "client_limit"),
        ({}, "few"),
    ],
)
def test_what_to_think_of_a_number_stands_beside_it(fields: dict[str, Any], caveat: str) -> None:
    """Each of them makes the number another one's."""
    assert caveat in describe(row(0, 1, **fields)).caveats
    assert caveat == "few" or caveat not in describe(row(0, 1)).caveats


def test_used_sandboxes_are_no_new_evidence() -> None:
    """A hundred transfers of three sandboxes have no p90."""
    rng = np.random.default_rng(1)
    cell = describe(*(row(number, 1 + rng.random(), sandbox=str(number % 3)) for number in range(100)))
    assert cell.p90_s.reason == "3 of 100 independent < 36"
    assert "dependent" in cell.caveats
