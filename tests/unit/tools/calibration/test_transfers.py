"""What a bucket did and what a program stored, made up: each verdict holds, and each can be made to fail."""

from __future__ import annotations

import functools
import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np
import pytest

from stepbench.contracts.transfer.rows import TransferRow
from stepbench_tools.calibration.report import judge as judge_report
from stepbench_tools.calibration.report import table_rows, verdict_lines
from stepbench_tools.calibration.transfers import (
    FILE_BYTES,
    NOTHING,
    PIECES,
    PLANTED,
    Fate,
    Jitter,
    TrueTransfer,
    calibrate_transfers,
    draw_fate,
    hour_of,
    moment_ns,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepbench_tools.calibration.instrument import Calibration

    Change = Callable[[int], float]


DRAWS = 10_000
FATES = [draw_fate(PLANTED, 1, number) for number in range(DRAWS)]


def test_the_shares_are_those_that_are_planted() -> None:
    """Four standard errors of a share of 10,000: 1.8 points of 30 %, 0.7 points of 3 %."""
    assert np.mean([fate.slow for fate in FATES]) == pytest.approx(0.3, abs=0.018)
    assert np.mean([fate.stall_s == 2.0 for fate in FATES]) == pytest.approx(0.03, abs=0.007)
    assert {fate.stalled_before for fate in FATES} == set(range(PIECES))


def test_the_slow_hour_and_the_slow_sandboxes_have_their_factors() -> None:
    """Both are factors of the rate, and of the first byte's wait, so that a transfer may have both."""
    rates = np.array([fate.mib_per_s for fate in FATES])
    slow, late = np.array([fate.slow for fate in FATES]), np.arange(DRAWS) % 24 == 14
    usual = np.median(rates[~slow & ~late])
    assert usual == pytest.approx(80, rel=0.01)
    assert np.median(rates[slow & ~late]) / usual == pytest.approx(0.2, rel=0.02)
    assert np.median(rates[~slow & late]) / usual == pytest.approx(0.6, rel=0.04)
    assert np.median(rates[slow & late]) / usual == pytest.approx(0.12, rel=0.06)


def test_nothing_planted_leaves_the_spread_alone() -> None:
    """Without a spread of its own, the machine's noise would be all that there is to be found."""
    fates = [draw_fate(NOTHING, 1, number) for number in range(DRAWS)]
    assert not any(fate.slow or fate.stall_s for fate in fates)
    assert np.std(np.log([fate.mib_per_s for fate in fates])) == pytest.approx(0.12, rel=0.05)


def test_a_fate_is_the_same_in_every_run_and_another_with_another_seed() -> None:
    """What is to be found is known beforehand, in whatever order transfers are made."""
    assert FATES[5:8] == [draw_fate(PLANTED, 1, number) for number in (5, 6, 7)]
    assert draw_fate(PLANTED, 2, 5) != FATES[5]


def test_a_simulated_moment_has_the_hour_that_the_bucket_goes_by() -> None:
    """Rows are dated with it: if the two fell apart, another hour would be found."""
    moments = [datetime.fromtimestamp(moment_ns(number) / 1e9, UTC) for number in range(100)]
    assert [moment.hour for moment in moments] == [hour_of(number) for number in range(100)]
    assert (moments[0].weekday(), (moments[99] - moments[0]).total_seconds()) == (0, 99 * 3_600)


@pytest.mark.parametrize(("before", "due_s"), [(0, [2.5, 2.75, 3.0]), (2, [0.5, 0.75, 3.0]), (9, [0.5, 0.75, 1.0])])
def test_pieces_are_due_at_the_rate_and_after_the_stall(before: int, due_s: list[float]) -> None:
    """A quarter of a MiB takes a quarter of a second at 1 MiB/s; a stall moves all that is behind it."""
    fate = Fate(slow=False, mib_per_s=1.0, first_s=0.5, stall_s=2.0, stalled_before=before)
    assert [fate.due_s(piece) for piece in range(3)] == due_s


def test_the_truth_is_what_happened_and_not_what_was_drawn() -> None:
    """The longest wait may lie before the first piece, and need not be planted."""
    fate = draw_fate(Jitter(), 1, 30)
    transfer = TrueTransfer(30, fate, received_at_ns=1_000, sent_at_ns=(1_700, 1_800, 2_000), sent_bytes=FILE_BYTES)
    assert (transfer.duration_ns, transfer.stood_ns) == (1_000, 700)
    told = json.loads(transfer.line())
    assert (told["number"], told["hour"], told["sent_at_ns"]) == (30, 6, [1_700, 1_800, 2_000])
    assert told["fate"] == fate._asdict()


N, SEED = 672, 7
MS = 1_000_000
HOP_NS = 200_000
PIECES_A_MIB = 4


def true_transfer(jitter: Jitter, number: int) -> TrueTransfer:
    """Return what a bucket does that is never late."""
    fate, received_ns = draw_fate(jitter, SEED, number), moment_ns(number)
    sent_ns = tuple(received_ns + round(fate.due_s(piece) * 1e9) for piece in range(PIECES))
    return TrueTransfer(number, fate, received_ns, sent_ns, FILE_BYTES)


def row_of(true: TrueTransfer, hop_ns: int = HOP_NS) -> TransferRow:
    """Return what a program stores that has each piece so much after the bucket has sent it."""
    since = [at_ns - true.received_at_ns + hop_ns for at_ns in true.sent_at_ns]
    return TransferRow(
        run_id="calibrate",
        trial=0,
        number=true.number,
        attempt=0,
        place=0,
        due_at_ns=moment_ns(true.number),
        began_at_ns=1_800_000_000_000_000_000,
        platform="lambda",
        source="s3",
        path=f"transfers/{true.number}",
        file_bytes=FILE_BYTES,
        received_bytes=FILE_BYTES,
        first_byte_ns=since[0],
        transfer_ns=since[-1],
        mib_ns=tuple(since[PIECES_A_MIB - 1 :: PIECES_A_MIB]),
        digest_ok=True,
        sandbox=f"sandbox-{true.number}",
        served=0,
        cold=True,
        outcome="ok",
    )


def slower(row: TransferRow, times: float) -> TransferRow:
    """Return a row of which all took so many times as long."""
    first_ns, transfer_ns = row.first_byte_ns or 0, row.transfer_ns or 0
    return row.model_copy(
        update={
            "first_byte_ns": round(first_ns * times),
            "transfer_ns": round(transfer_ns * times),
            "mib_ns": tuple(round(mark_ns * times) for mark_ns in row.mib_ns),
        }
    )


TRUTH = tuple(true_transfer(PLANTED, number) for number in range(N))
ROWS = tuple(map(row_of, TRUTH))
PLAIN = tuple(true_transfer(NOTHING, number) for number in range(N))
STALLED = next(each.number for each in TRUTH if each.fate.stall_s)
SMOOTH = next(each.number for each in TRUTH if not each.fate.stall_s)


@functools.cache
def judge(rows: tuple[TransferRow, ...], truth: tuple[TrueTransfer, ...] = TRUTH) -> Calibration:
    """Return the calibration of the run with what is planted."""
    return calibrate_transfers("planted", PLANTED, truth, rows)


def changed(number: int, row: TransferRow) -> tuple[TransferRow, ...]:
    """Return the rows with another one in the place of one."""
    return (*ROWS[:number], row, *ROWS[number + 1 :])


def failed(found: Calibration) -> set[str]:
    """Return of what the failures are."""
    return {failure.partition(":")[0] for failure in found.failures()}


def test_what_is_planted_is_found_and_nothing_else() -> None:
    """All that the experiment claims to see is put before it at once, in one pair."""
    found = judge(ROWS)
    assert found.failures() == ()
    counts = {each.metric: each.measured for each in found.counts}
    stalls = sum(each.fate.stall_s > 0 for each in TRUTH)
    assert counts == {
        "whole": N,
        "bytes": N * FILE_BYTES,
        "stalls": stalls,
        "slow hours": 1,
        "modes": 2,
        "weekdays": 0,
        "changes": 0,
    }
    assert (found.n, found.stalled, found.stalled_seen) == (N, stalls, stalls)
    assert [each.metric for each in found.levels] == ["share of slow ones", "slow over fast", "rate at 14 h"]
    assert [each.error_ms for each in found.errors] == pytest.approx([0.2] * 3)


def test_where_nothing_is_planted_nothing_is_found() -> None:
    """Half of a calibration: an analysis that always finds two modes would pass the other half."""
    found = calibrate_transfers("nothing planted", NOTHING, PLAIN, tuple(map(row_of, PLAIN)))
    assert (found.failures(), found.levels, found.stalled) == ((), (), 0)
    assert {each.metric: each.measured for each in found.counts}["modes"] == 1


def test_what_is_found_without_being_planted_is_a_failure() -> None:
    """The same rows, and a bucket that says that it did nothing of that kind."""
    unplanned = tuple(replace(each, fate=draw_fate(NOTHING, SEED, each.number)) for each in TRUTH)
    found = calibrate_transfers("nothing planted", NOTHING, unplanned, ROWS)
    assert failed(found) == {"slow hours", "modes"}  # its stalls it has on record, so those may be found


def test_what_is_planted_and_not_found_is_a_failure() -> None:
    """Rows of a bucket without jitter, beside the truth of one with it."""
    found = judge(tuple(map(row_of, PLAIN)), tuple(replace(b, fate=a.fate) for a, b in zip(TRUTH, PLAIN, strict=True)))
    assert failed(found) == {"stalls", "slow hours", "modes", "share of slow ones", "slow over fast"}


def test_times_are_compared_transfer_by_transfer() -> None:
    """Two milliseconds too many are more than a median may have; of one in fifty, 60 ms more than a p99 may."""
    assert failed(judge(tuple(row_of(each, 2 * MS) for each in TRUTH))) == {"p50 error"}
    assert failed(judge(tuple(row_of(each, -2 * MS) for each in TRUTH))) == {"p50 error"}
    some = tuple(row_of(each, 60 * MS if each.number % 50 == 1 else HOP_NS) for each in TRUTH)
    assert failed(judge(some)) == {"p99 error"}


def test_a_stall_that_is_missed_is_a_failure() -> None:
    """The sum of stalls would be right if another transfer had one in its place."""
    smooth = TRUTH[STALLED]
    sent_ns = tuple(smooth.received_at_ns + round(smooth.fate._replace(stall_s=0).due_s(at) * 1e9) for at in range(16))
    missed = changed(STALLED, row_of(replace(smooth, sent_at_ns=sent_ns)))
    assert failed(judge(missed)) == {"stalls"}
    assert judge(missed).stalled_seen == judge(ROWS).stalled - 1
    found = judge(tuple(stalling(row) if row.number == SMOOTH else row for row in missed))
    (stalls,) = (each for each in found.counts if each.metric == "stalls")
    assert (stalls.measured - stalls.truth, stalls.differing) == (0, 2)


def stalling(row: TransferRow) -> TransferRow:
    """Return a row whose last MiB came 2 s late."""
    late_ns = (row.transfer_ns or 0) + 2_000 * MS
    return row.model_copy(update={"transfer_ns": late_ns, "mib_ns": (*row.mib_ns[:-1], late_ns)})


def test_a_stall_that_nobody_planted_is_a_failure_unless_the_bucket_stood_still_itself() -> None:
    """A machine that is busy for half a second says nothing about the program."""
    rows, true = changed(SMOOTH, stalling(ROWS[SMOOTH])), TRUTH[SMOOTH]
    assert failed(judge(rows)) == {"stalls"}
    stood = replace(true, sent_at_ns=(*true.sent_at_ns[:-1], true.sent_at_ns[-1] + 2_000 * MS))
    assert judge(rows, (*TRUTH[:SMOOTH], stood, *TRUTH[SMOOTH + 1 :])).failures() == ()


def test_a_stall_has_to_be_seen_with_all_of_its_length() -> None:
    """One of a second is a stall as well, and no measurement of one of two."""
    stalled = TRUTH[STALLED]
    shorter = stalled.fate._replace(stall_s=1.5)
    sent_ns = tuple(stalled.received_at_ns + round(shorter.due_s(piece) * 1e9) for piece in range(PIECES))
    found = judge(changed(STALLED, row_of(replace(stalled, sent_at_ns=sent_ns))))
    assert found.failures() == (f"stalls: 1 of {found.stalled} delayed ones not seen as such",)


@pytest.mark.parametrize(
    ("change", "metrics"),
    [
        ({"outcome": "failed", "digest_ok": False, "error": "wrong-digest"}, {"whole"}),
        ({"received_bytes": FILE_BYTES - 1}, {"bytes"}),
    ],
)
def test_bytes_and_digests_are_exact(change: dict[str, object], metrics: set[str]) -> None:
    """A file that is not the bucket's is no transfer."""
    assert failed(judge(changed(SMOOTH, ROWS[SMOOTH].model_copy(update=change)))) == metrics


@pytest.mark.parametrize("rows", [ROWS[1:], (*ROWS, ROWS[0])], ids=["one too few", "one twice"])
def test_a_request_without_its_row_and_a_row_too_many_are_failures(rows: tuple[TransferRow, ...]) -> None:
    """Each transfer is one of both."""
    assert judge(rows).failures() == ("1 of truth and records have no counterpart",)


def test_nothing_at_all_is_a_failure() -> None:
    """A bucket that nobody asked proves nothing."""
    assert "nothing was measured" in judge((), ()).failures()


@pytest.mark.parametrize(
    ("times", "metrics"),
    [
        (lambda n: 0.6 if hour_of(n) == 14 else 1.0, {"slow hours", "rate at 14 h"}),
        (lambda n: 1.7 if hour_of(n) == 3 else 1.0, {"slow hours"}),
        (lambda n: 0.2 if TRUTH[n].fate.slow and n % 3 == 0 else 1.0, {"share of slow ones"}),
        (lambda n: 0.8 if TRUTH[n].fate.slow else 1.0, {"slow over fast", "rate at 14 h"}),
        (lambda n: 1.5 if n > N // 2 else 1.0, {"changes"}),
        (lambda n: 1.6 if n // 24 % 7 == 2 else 1.0, {"weekdays"}),
    ],
    ids=["no slow hour", "another hour", "fewer slow ones", "another ratio", "a change", "a weekday"],
)
def test_a_finding_that_is_off_is_a_failure(times: Change, metrics: set[str]) -> None:
    """The program is made to measure what the bucket did not do; its times are wrong then as well."""
    found = judge(tuple(slower(row, times(row.number)) for row in ROWS))
    assert failed(found) - {"p50 error", "p99 error", "stalls"} >= metrics


def test_the_report_says_what_failed_and_shows_levels_beside_their_truth() -> None:
    """One table for all kinds of calibrations, and the levels below it."""
    good, bad = judge(ROWS), judge(tuple(row_of(each, 2 * MS) for each in TRUTH))
    report = judge_report("transfers", (good,))
    assert (report.passed, report.judged) == (True, "transfers")
    assert [row[2] for row in table_rows(report.trials)] == ["p50 error", "p99 error", "largest error"]
    lines = list(verdict_lines(report))
    truth = np.mean([each.fate.slow for each in TRUTH if not each.fate.stall_s and hour_of(each.number) != 14])
    assert lines[0].startswith("planted: share of slow ones: measured 0.")
    assert f"truth {truth:.3f}, limit 0.02" in lines[0]
    assert lines[-1] == "the instrument keeps its limits (times, stalls, counts and levels)"
    failing = list(verdict_lines(judge_report("transfers", (good, bad))))
    assert "planted: p50 error: error +2.000 ms, limit 1.000 ms" in failing
    assert failing[-1] == "the instrument FAILS (times)"
    assert not judge_report("transfers", ()).passed
