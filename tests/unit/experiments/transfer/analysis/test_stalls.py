from __future__ import annotations

import numpy as np
import pytest
from tests.samples.planted_transfers import Simulation, Truth

from stepbench.contracts.transfer.result import TransferStalls
from stepbench.contracts.transfer.rows import TransferRow
from stepbench.experiments.transfer.analysis.reads import Reads, pairs_of
from stepbench.experiments.transfer.analysis.stalls import find_stalls as find
from stepbench.records.formats.transfer_columns import TransferColumns

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
    both = Reads(TransferColumns.joined([usual.columns, late.columns]))
    assert (find_stalls(both).stalls, find_stalls(both).longest_s) == (1, 2)
    assert find_stalls(usual).stalls == 0


def test_without_progress_nothing_is_judged() -> None:
    """Rows of others have times only: no stall was seen, and none was looked for."""
    (_, other), *_ = pairs_of(Simulation(0, 0, 20, marks=False).draw(Truth(), np.random.default_rng(1))[0])
    columns = other.columns
    untold = np.full_like(columns.first_byte_ns, -1)
    found = find_stalls(Reads(type(columns)(**{**vars(columns), "first_byte_ns": untold})))
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
