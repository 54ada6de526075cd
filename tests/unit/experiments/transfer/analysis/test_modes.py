from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from tests.samples.planted_transfers import Truth, drawn_reads

from stepbench.contracts.transfer.result import TransferDependence
from stepbench.experiments.transfer.analysis import modes
from stepbench.experiments.transfer.analysis.levels import depend_on_hour, find_changes
from stepbench.experiments.transfer.analysis.modes import LEAST_READS, find_modes, find_steady
from stepbench.experiments.transfer.analysis.reads import Reads

LEVEL = 0.005
NO_HOURS = TransferDependence(levels=())
draw = partial(drawn_reads, n=900, platform=1)


def cells(reads: Reads) -> list[Reads]:
    """Return those of each size."""
    return [cell for _, cell in reads.cells()]


def test_two_modes_are_found_in_each_cell_and_together() -> None:
    """Three in ten at a fifth of the rate, of about 100 transfers a cell."""
    of_cells, together = find_modes(cells(draw(Truth(slow_share=0.3))), LEVEL, np.random.default_rng(1))
    assert all(modes.found for modes in of_cells)
    slow, fast = together.modes
    assert slow.share == pytest.approx(0.3, abs=0.06)
    assert slow.mib_per_s / fast.mib_per_s == pytest.approx(0.2, abs=0.03)
    assert slow.share + fast.share == pytest.approx(1)


@pytest.mark.parametrize("source", [0, 1])
def test_one_mode_is_one_in_each_cell_and_together(source: int) -> None:
    """S3's rate rises with the size, which must not look like modes of all sizes together."""
    of_cells, together = find_modes(cells(draw(source=source)), LEVEL, np.random.default_rng(1))
    assert not any(modes.found for modes in (*of_cells, together))
    assert [len(modes.modes) for modes in (*of_cells, together)] == [1] * 10


def test_few_transfers_tell_nothing_and_say_so() -> None:
    """The other cells are judged all the same."""
    reads = draw(Truth(slow_share=0.3))
    few = [*cells(reads)[:8], cells(reads)[8].take(np.arange(LEAST_READS - 1))]
    of_cells, _ = find_modes(few, LEVEL, np.random.default_rng(1))
    assert (of_cells[8].reason, of_cells[8].found, of_cells[8].n) == ("n=49 < 50", False, 49)
    assert of_cells[0].found


def test_a_change_of_level_and_a_slow_hour_are_no_modes() -> None:
    """They are told as what they are; the longer span is judged, without the hour."""
    reads = draw(Truth(change_after_days=12, change_factor=0.5, slow_hour=14, hour_factor=0.3), n=1_500)
    hours = depend_on_hour(reads, LEVEL, np.random.default_rng(1))
    changes, _ = find_changes(reads, hours, LEVEL, np.random.default_rng(1))
    steady = find_steady(reads, changes, hours)
    chosen = steady.choose(reads)
    assert chosen.n == pytest.approx(reads.n * 18 / 30 * 23 / 24, rel=0.05)
    assert not find_modes([steady.choose(cell) for cell in cells(reads)], LEVEL, np.random.default_rng(1))[1].found
    assert find_modes(cells(reads), LEVEL, np.random.default_rng(1))[1].found


def test_the_first_read_of_each_sandbox_counts() -> None:
    """A sandbox that is lucky a hundred times is one mode's worth of luck."""
    reads = draw(n=100)
    columns = reads.columns
    texts = type(columns.sandbox)(np.arange(100) % 10, tuple(map(str, range(10))))
    shared = Reads(replace(columns, sandbox=texts))
    chosen = find_steady(shared, (), NO_HOURS).choose(shared)
    assert chosen.columns.number.tolist() == list(range(10))


def test_sizes_from_100_mib_on_are_judged_together() -> None:
    """The published levels are of those: smaller ones have not reached their rate. 100 MiB is one of the sizes."""
    sizes = cells(draw(n=90))
    smaller, from_100 = [[cell for cell in sizes if (cell.sizes_mib[0] >= 100) == large] for large in (False, True)]
    assert from_100[0].sizes_mib[0] == 100
    assert smaller
    _, together = find_modes(sizes, LEVEL, np.random.default_rng(1))
    assert together.n == sum(cell.n for cell in from_100)


def test_no_transfers_have_no_modes() -> None:
    """All of a cell may have failed."""
    nothing = draw(n=10).take(np.zeros(10, np.bool_))
    steady = find_steady(nothing, (), NO_HOURS)
    assert find_modes([steady.choose(nothing)], LEVEL, np.random.default_rng(1))[1].reason == "n=0 < 50"


def test_shares_add_up_to_five_per_cent() -> None:
    """All findings together are wrong in one report of twenty."""
    assert round(modes.MODES_ERROR + modes.HOURS_ERROR + modes.WEEKDAYS_ERROR + modes.CHANGES_ERROR, 12) == 0.05


def test_the_rule_is_hochbergs() -> None:
    """By hand, at 5 %: 0.04 is more than 0.05, no; 0.03 more than 0.025; 0.01 is at most 0.05 / 3."""
    assert modes.found_among([0.01, 0.06, 0.03], 0.05) == (True, False, False)
    assert modes.found_among([0.04, 0.05, 0.03], 0.05) == (True, True, True)


def test_what_is_not_told_is_not_found_and_does_not_count() -> None:
    """A cell of few transfers takes nothing from the others."""
    assert modes.found_among([None, 0.04], 0.05) == (False, True)
    assert modes.found_among([], 0.05) == ()


def test_it_errs_in_at_most_its_share() -> None:
    """Ten tests without anything to find, 4,000 times: 5 % ± 0.7 by chance."""
    p_values = np.random.default_rng(1).random((4_000, 10))
    assert np.mean([any(modes.found_among(row.tolist(), 0.05)) for row in p_values]) < 0.058
