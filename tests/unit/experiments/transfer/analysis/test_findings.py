from __future__ import annotations

import dataclasses
import subprocess
import sys

import numpy as np
import pytest
from tests.samples.planted_transfers import NOTHING, Simulation, Truth, joined

from stepbench.contracts.transfer.result import TransferFindings
from stepbench.experiments.transfer.analysis.findings import find_transfers
from stepbench.records.formats.transfer_columns import TransferColumns

PAIRS = ((0, 0), (0, 1), (1, 0), (1, 1))


def month(*truths: Truth, n: int = 900) -> TransferColumns:
    """Return a month of so many transfers of each pair: S3 and EFS to Lambda, S3 and EFS to Fargate."""
    rng = np.random.default_rng(5)
    drawn = [Simulation(*pair, n).draw(truth, rng)[0] for pair, truth in zip(PAIRS, truths, strict=True)]
    return joined(drawn)


@pytest.fixture(scope="module")
def planted() -> TransferFindings:
    """Return what is found where a change, a slow hour, stalls and two modes are planted, one in each pair."""
    truths = (Truth(change_after_days=12), Truth(slow_hour=14), Truth(stall_share=0.01), Truth(slow_share=0.3))
    return find_transfers(month(*truths), offered=3_610)


def test_each_planted_truth_is_found_and_nothing_else(planted: TransferFindings) -> None:
    """The calibration of this experiment; `benchmarks/transfer_truth.py` counts over a hundred months."""
    assert [len(pair.changes) for pair in planted.pairs] == [1, 0, 0, 0]
    assert [pair.hours.found for pair in planted.pairs] == [False, True, False, False]
    assert [pair.weekdays.found for pair in planted.pairs] == [False] * 4
    assert [pair.modes.found for pair in planted.pairs] == [False, False, False, True]
    assert {cell.source + cell.platform for cell in planted.cells if cell.modes.found} == {"efsfargate"}
    assert {cell.source + cell.platform for cell in planted.cells if cell.stalls.stalls} == {"s3fargate"}


def test_it_is_said_in_sentences(planted: TransferFindings) -> None:
    """One for each pair and one for each finding, with numbers a reader can use."""
    text = "\n".join(planted.answers)
    assert "A 500 MiB file from S3 to Lambda takes" in text
    assert "in half the cases and above" in text
    assert "Since 2024-01-1" in text
    assert "Rates from EFS to Lambda depend on the hour" in text
    assert "at 14 h UTC" in text
    assert "Rates from EFS to Fargate lie about 12 MiB/s (" in text
    assert "stood still in between, for 2" in text
    assert "one of a hundred" not in text


def test_the_accounting_is_whole(planted: TransferFindings) -> None:
    """Ten reads have left no row."""
    accounting = planted.accounting
    assert (accounting.offered, accounting.missing, planted.n) == (3_610, 10, 3_600)
    assert accounting.ok + accounting.failed + accounting.unknown == planted.n
    assert accounting.cold == 3_600


def test_where_nothing_is_planted_nothing_is_found() -> None:
    """The same month without truths."""
    found = find_transfers(month(*[NOTHING] * 4))
    assert not any(pair.changes or pair.hours.found or pair.weekdays.found or pair.modes.found for pair in found.pairs)
    assert not any(cell.modes.found or cell.stalls.stalls for cell in found.cells)
    assert not any("lie about" in answer or "Since" in answer for answer in found.answers)


def test_the_order_of_rows_does_not_matter() -> None:
    """Days are read as they come."""
    columns = month(*[NOTHING] * 4, n=100)
    turned = columns.take(np.random.default_rng(1).permutation(columns.size))
    assert find_transfers(turned) == find_transfers(columns)


def test_no_rows_are_a_report_without_numbers() -> None:
    """A span in which nothing ran."""
    found = find_transfers(TransferColumns.of([]))
    assert (found.n, found.begin, found.cells, found.pairs, found.answers) == (0, None, (), (), ())


def test_a_short_trial_has_numbers_and_says_what_is_not_told() -> None:
    """`quick-transfer` makes a dozen transfers within a minute."""
    columns = Simulation(0, 1, 12, days=1).draw(NOTHING, np.random.default_rng(1))[0]
    found = find_transfers(columns)
    (pair,) = found.pairs
    assert pair.hours.reason == "1 days < 7"
    assert pair.changes_reason == "n=12 < 40"
    assert pair.modes.reason is not None
    assert pair.variance.rest.reason == "n=12 < 30"
    assert all(cell.mean_mib_per_s.value for cell in found.cells)
    assert "in half of 2 cases" in found.answers[0]  # of two there is no "one in ten"


def test_it_needs_neither_scipy_nor_pyarrow() -> None:
    """The function that makes datasets has pyarrow, and no room for SciPy beside it."""
    script = """
import sys
sys.modules |= {"scipy": None, "pyarrow": None, "pandas": None}
import numpy as np
from stepbench.experiments.transfer.analysis.findings import find_transfers
from tests.samples.planted_transfers import Simulation, Truth
columns = Simulation(0, 1, 500).draw(Truth(slow_share=0.3, change_after_days=12), np.random.default_rng(1))[0]
print(find_transfers(columns).pairs[0].modes.found)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60)
    assert done.stdout.strip() == "True", done.stderr


def test_a_file_that_was_read_once_took_what_it_took() -> None:
    """There is no half of one case; and what takes less than a second is told in ms."""
    columns, _ = Simulation(0, 1, 1).draw(NOTHING, np.random.default_rng(1))
    (said,) = find_transfers(columns).answers
    assert said.startswith(f"A {round(columns.file_bytes[0] / 2**20)} MiB file from EFS to Lambda took ")
    assert said.endswith(" the one time that it was read.")
    once = joined([columns])
    (fast,) = find_transfers(dataclasses.replace(once, transfer_ns=np.array([13_400_000]))).answers
    assert "took 13 ms" in fast
