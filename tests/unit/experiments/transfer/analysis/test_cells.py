from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.samples.planted_transfers import Simulation, Truth, joined

from stepbench.contracts.transfer.result import TransferCell, TransferModes, TransferStalls
from stepbench.contracts.transfer.rows import TransferRow
from stepbench.experiments.transfer.analysis.cells import describe_cell
from stepbench.experiments.transfer.analysis.cells import find_stalls as find
from stepbench.experiments.transfer.analysis.reads import PairName, Reads, pairs_of
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


def test_one_transfer_is_no_slowest_beside_a_fastest() -> None:
    """A ratio of 1 would be that of transfers that all take the same time."""
    cell = describe(row(0, 2))
    assert (cell.fastest_s, cell.slowest_s, cell.slowest_over_fastest) == (2, 2, None)


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
        ({"source": "efs", "cached_share": None}, "warm"),
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


MS = 1_000_000


def reads(*waits_ms: list[int], first_ms: int | None = 10) -> Reads:
    """Return transfers with these waits for each MiB, after their first byte."""
    rows = []
    for number, waits in enumerate(waits_ms):
        marks = np.cumsum([(first_ms or 0) + waits[0], *waits[1:]]) * MS
        rows.append(
            TransferRow(
                run_id="run",
                trial=0,
                number=number,
                attempt=0,
                place=0,
                due_at_ns=number,
                began_at_ns=number,
                platform="lambda",
                source="s3",
                path="file",
                file_bytes=len(waits) * 2**20,
                received_bytes=len(waits) * 2**20,
                first_byte_ns=None if first_ms is None else first_ms * MS,
                transfer_ns=int(marks[-1]),
                mib_ns=tuple(marks.tolist()),
                sandbox=str(number),
                served=0,
                outcome="ok",
            )
        )
    return Reads(TransferColumns.of(rows))


def find_stalls(cell: Reads) -> TransferStalls:
    """Return what a report shows of them."""
    return find(cell).summary()


def test_a_wait_long_in_itself_and_beside_the_transfers_pace_is_a_stall() -> None:
    """2 s among tenths of a second."""
    found = find_stalls(reads([100, 100, 2_000, 100, 100], [100] * 5))
    assert (found.stalls, found.transfers, found.judged) == (1, 1, 2)
    assert (found.longest_s, found.share.value) == (2, 0.5)


def test_a_slow_transfer_is_no_stall() -> None:
    """Each MiB takes 0.6 s: it has a slow pace, and never stands still."""
    assert find_stalls(reads([600] * 8, [60] * 8)).stalls == 0


def test_a_short_wait_is_none_however_fast_the_transfer() -> None:
    """0.4 s is a hundred times its pace, and a lost packet's time-out."""
    assert find_stalls(reads([4, 4, 400, 4, 4])).stalls == 0


def test_a_file_of_one_mib_is_judged_by_its_like() -> None:
    """It has no pace of its own; three in ten are five times slower, which is a mode."""
    usual = [[20]] * 14 + [[100]] * 6
    assert find_stalls(reads(*usual)).stalls == 0
    assert find_stalls(reads(*usual, [2_020])).stalls == 1


def test_waiting_for_the_first_byte_may_be_a_stall() -> None:
    """S3 answers late, and then at full speed."""
    late = reads([20] * 5, first_ms=2_000)
    usual = reads(*[[20] * 5] * 9)
    both = Reads(joined([usual.columns, late.columns]))
    assert (find_stalls(both).stalls, find_stalls(both).longest_s) == (1, 2)
    assert find_stalls(usual).stalls == 0


def test_without_progress_nothing_is_judged() -> None:
    """Rows of others have times only: no stall was seen, and none was looked for."""
    (_, other), *_ = pairs_of(Simulation(0, 0, 20, marks=False).draw(Truth(), np.random.default_rng(1))[0])
    columns = other.columns
    untold = np.full_like(columns.first_byte_ns, -1)
    found = find_stalls(Reads(replace(columns, first_byte_ns=untold)))
    assert (found.judged, found.share.value) == (0, None)


@pytest.mark.parametrize("platform", [0, 1])
@pytest.mark.parametrize("truth", [Truth(stall_share=0.05), Truth(stall_share=0.05, slow_share=0.3)])
def test_planted_stalls_are_found_and_no_others(platform: int, truth: Truth) -> None:
    """All sizes, from EFS: two seconds each, in fast transfers and in slow ones."""
    columns, stalled = Simulation(platform, 1, 400, days=7).draw(truth, np.random.default_rng(3))
    (_, pair), *_ = pairs_of(columns)
    found = [find_stalls(cell) for _, cell in pair.cells()]
    assert sum(each.stalls for each in found) == stalled.size > 0
    assert all(each.median_s == pytest.approx(2, abs=0.3) for each in found if each.stalls)
