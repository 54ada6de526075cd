"""What is drawn for each transfer is what is planted, and what the bucket says about one is what it did."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import numpy as np
import pytest

from stepbench_tools.calibration.reference_bucket.jitter import (
    FILE_BYTES,
    NOTHING,
    PIECES,
    PLANTED,
    Fate,
    Jitter,
    TrueTransfer,
    draw_fate,
    hour_of,
    moment_ns,
)

N = 10_000
FATES = [draw_fate(PLANTED, 1, number) for number in range(N)]


def test_the_shares_are_those_that_are_planted() -> None:
    """Four standard errors of a share of 10,000: 1.8 points of 30 %, 0.7 points of 3 %."""
    assert np.mean([fate.slow for fate in FATES]) == pytest.approx(0.3, abs=0.018)
    assert np.mean([fate.stall_s == 2.0 for fate in FATES]) == pytest.approx(0.03, abs=0.007)
    assert {fate.stalled_before for fate in FATES} == set(range(PIECES))


def test_the_slow_hour_and_the_slow_sandboxes_have_their_factors() -> None:
    """Both are factors of the rate, and of the first byte's wait, so that a transfer may have both."""
    rates = np.array([fate.mib_per_s for fate in FATES])
    slow, late = np.array([fate.slow for fate in FATES]), np.arange(N) % 24 == 14
    usual = np.median(rates[~slow & ~late])
    assert usual == pytest.approx(80, rel=0.01)
    assert np.median(rates[slow & ~late]) / usual == pytest.approx(0.2, rel=0.02)
    assert np.median(rates[~slow & late]) / usual == pytest.approx(0.6, rel=0.04)
    assert np.median(rates[slow & late]) / usual == pytest.approx(0.12, rel=0.06)


def test_nothing_planted_leaves_the_spread_alone() -> None:
    """Without a spread of its own, the machine's noise would be all that there is to be found."""
    fates = [draw_fate(NOTHING, 1, number) for number in range(N)]
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
