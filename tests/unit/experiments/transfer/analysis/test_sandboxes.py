from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.samples.planted_transfers import NOTHING, Simulation

from stepbench.experiments.transfer.analysis.reads import pairs_of
from stepbench.experiments.transfer.analysis.sandboxes import _beside_neighbours, compare_sandboxes, rank_correlation
from stepbench.records.formats.transfer_columns import TransferColumns

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepbench.contracts.transfer.result import TransferSandboxes

    Floats = NDArray[np.float64]


def compare(
    n: int, common: float = 0.0, *, over_time: Floats | float = 1.0, told: bool = True
) -> list[TransferSandboxes]:
    """Return what is found of sandboxes that read once from each source, and slow down both by a common factor."""
    rng = np.random.default_rng(3)
    factors = np.exp(common * rng.standard_normal(n)) * over_time
    parts = []
    for source in (0, 1):
        columns, _ = Simulation(0, source, n, marks=False).draw(NOTHING, rng)
        sandbox = type(columns.sandbox)(np.arange(n), tuple(f"box-{each}" if told else "" for each in range(n)))
        took_ns = (columns.transfer_ns * factors).astype(np.int64)
        parts.append(dataclasses.replace(columns, sandbox=sandbox, transfer_ns=took_ns))
    return list(compare_sandboxes(list(pairs_of(TransferColumns.joined(parts)))))


def test_a_slow_sandbox_shows_in_both_of_its_reads() -> None:
    """Each read was of a new sandbox, so neither alone tells whether the sandbox or the source was slow."""
    (found,) = compare(600, common=0.3)
    assert (found.platform, found.n) == ("lambda", 600)
    assert found.correlation.low is not None
    assert found.correlation.low > 0.5


def test_sandboxes_that_do_not_matter_are_not_blamed() -> None:
    """The interval has 0 within it."""
    (found,) = compare(600)
    low, high = found.correlation.low, found.correlation.high
    assert low is not None
    assert high is not None
    assert low < 0 < high


@pytest.mark.parametrize(
    "over_time",
    [
        pytest.param(np.where(np.arange(720) < 288, 1.0, 1 / 0.6), id="a change of both sources"),
        pytest.param(1 + 0.2 * np.sin(np.arange(720) * 2 * np.pi / 24), id="a daily wave"),
    ],
)
def test_what_both_sources_do_at_a_time_is_no_sandbox_s(over_time: Floats) -> None:
    """Both reads are of the same moment: r was 0.63 and 0.33 before they were set beside their neighbours."""
    (found,) = compare(720, over_time=over_time)
    assert found.correlation.value == pytest.approx(0, abs=0.1)


def test_nothing_is_said_where_nobody_told_the_sandbox() -> None:
    """As of the published rows."""
    assert compare(100, told=False) == []


def test_few_sandboxes_say_so() -> None:
    """A correlation of ten is an accident."""
    (found,) = compare(10)
    assert found.correlation.reason == "n=10 < 30"


def test_the_interval_holds_the_truth_19_times_in_20() -> None:
    """Simulated: Spearman's of a normal pair with Pearson's 0.5 is 6 / pi asin(0.25)."""
    rng, truth, held = np.random.default_rng(5), 6 / np.pi * np.arcsin(0.25), 0
    for _ in range(400):
        one, noise = rng.standard_normal((2, 100))
        found = rank_correlation(one, 0.5 * one + np.sqrt(0.75) * noise)
        assert found.low is not None
        assert found.high is not None
        held += found.low <= truth <= found.high
    assert held / 400 == pytest.approx(0.95, abs=0.03)


def test_the_interval_holds_nothing_where_nothing_is_19_times_in_20() -> None:
    """What was set beside its neighbours depends on them: as if independent, it held in 90 of 100."""
    rng, held = np.random.default_rng(6), 0
    for _ in range(400):
        one, other = (_beside_neighbours(rng.random(200)) for _ in range(2))
        found = rank_correlation(one, other)
        assert found.low is not None
        assert found.high is not None
        held += found.low <= 0 <= found.high
    assert held / 400 == pytest.approx(0.95, abs=0.03)


def test_rates_that_are_all_the_same_have_no_correlation() -> None:
    """A number would be 0 over 0."""
    assert rank_correlation(np.ones(40), np.arange(40.0)).reason == "all rates are the same"
