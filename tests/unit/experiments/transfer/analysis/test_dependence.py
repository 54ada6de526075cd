from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.samples.planted_transfers import NOTHING, Simulation, Truth, drawn_reads, joined

from stepbench.contracts.measures import Estimate
from stepbench.contracts.transfer.result import TransferCell, TransferModes
from stepbench.experiments.transfer.analysis.cells import describe_cell
from stepbench.experiments.transfer.analysis.dependence import (
    _beside_neighbours,
    compare_sandboxes,
    find_plateau,
    rank_correlation,
    split_variance,
)
from stepbench.experiments.transfer.analysis.reads import Reads, pairs_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepbench.contracts.transfer.result import TransferSandboxes

    Floats = NDArray[np.float64]

draw = partial(drawn_reads, n=900, source=0)


def test_sizes_make_most_of_what_rates_from_s3_vary() -> None:
    """The rate rises with the size; shares that are told add up to the whole."""
    found = split_variance(draw())
    shares = [found.size.value or 0, found.hour.value or 0, found.rest.value or 0]
    assert sum(shares) == pytest.approx(1)
    assert shares[0] > 0.9
    assert shares[1] < 0.01


def test_a_slow_hour_has_its_share() -> None:
    """Log(0.2)² / 24 = 0.108 beside that of the noise, 8 / 9 of 0.15² and 1 / 9 of 0.3²: 0.78 of the two."""
    found = split_variance(draw(Truth(slow_hour=3, hour_factor=0.2), source=1, n=3_000))
    assert found.hour.value is not None
    assert found.rest.value is not None
    assert found.hour.value / (found.hour.value + found.rest.value) == pytest.approx(0.78, abs=0.06)
    assert found.hour.low is not None


def test_sandboxes_of_one_transfer_each_are_not_told() -> None:
    """What they make is in the rest, and the report must not call it chance."""
    assert split_variance(draw()).sandbox.reason == "each made one transfer, or all were made by one"


def test_sandboxes_of_several_transfers_are() -> None:
    """A third of them at a fifth of the rate: log(5)² · 2 / 9 = 0.58 beside 0.03 of the noise, 0.95 of the two."""
    columns = draw(source=1).columns
    sandbox = np.arange(900) // 3
    times = np.where(sandbox % 3 == 0, columns.transfer_ns * 5, columns.transfer_ns)
    texts = type(columns.sandbox)(sandbox, tuple(map(str, range(300))))
    found = split_variance(Reads(replace(columns, sandbox=texts, transfer_ns=times)))
    assert found.sandbox.value is not None
    assert found.rest.value is not None
    assert found.sandbox.value / (found.sandbox.value + found.rest.value) == pytest.approx(0.95, abs=0.02)


@pytest.mark.parametrize(("n", "days", "reason"), [(29, 30, "n=29 < 30"), (100, 5, "5 days < 10")])
def test_few_transfers_or_days_say_why(n: int, days: int, reason: str) -> None:
    """Without days to leave out there is no interval, and without transfers no number."""
    assert split_variance(draw(n=n, days=days)).rest.reason == reason


def test_rows_that_tell_no_sandbox_say_so() -> None:
    """Those of others: whether each was made by a sandbox of its own nobody knows."""
    columns = draw().columns
    texts = type(columns.sandbox)(np.zeros(900, np.int64), ("",))
    found = split_variance(Reads(replace(columns, sandbox=texts)))
    assert found.sandbox.reason == "which made which is untold"


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
        parts.append(replace(columns, sandbox=sandbox, transfer_ns=took_ns))
    return list(compare_sandboxes(list(pairs_of(joined(parts)))))


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


def cells(source: int) -> list[TransferCell]:
    """Return those of a month of transfers to Lambda."""
    rng = np.random.default_rng(1)
    ((name, reads),) = pairs_of(Simulation(0, source, 700, marks=False).draw(NOTHING, rng)[0])
    return [describe_cell(name, size, cell, TransferModes(), rng) for size, cell in reads.cells()]


def with_means(*means: float, half: float = 0.1, cpu_share: float | None = None) -> list[TransferCell]:
    """Return cells of the published sizes with these means, each ± so much."""
    changes = [
        {"mean_mib_per_s": Estimate(value=mean, low=mean - half, high=mean + half), "cpu_share": cpu_share}
        for mean in means
    ]
    return [cell.model_copy(update=change) for cell, change in zip(cells(0), changes, strict=False)]


def test_it_begins_where_no_larger_size_is_faster_by_more_than_a_twentieth() -> None:
    """The published means of S3 on Fargate."""
    found = find_plateau(with_means(4.1, 11.5, 15.6, 20.4, 22.5, 24.1, 25.4, 25.8, 25.9))
    assert (found.from_mib, found.rises) == (250, True)
    assert found.mib_per_s == pytest.approx((25.4 + 25.8 + 25.9) / 3)


def test_a_rate_that_rises_up_to_the_end_has_none() -> None:
    """Larger files may be faster still."""
    found = find_plateau(with_means(1, 2, 3, 4, 5, 6, 7, 8, 9))
    assert (found.from_mib, found.rises, found.reason) == (None, True, None)


def test_a_rate_of_all_sizes_alike_begins_at_the_smallest() -> None:
    """Chance makes no rise: of simulated EFS the sizes from 25 MiB on have one rate."""
    found = find_plateau(cells(1)[3:])
    assert (found.from_mib, found.rises) == (25, False)


def test_it_may_be_the_clients_own_limit() -> None:
    """A process that computes all the time waits for nobody; unknown is not no."""
    assert find_plateau(with_means(1, 5, 5, cpu_share=0.9)).client_limit is True
    assert find_plateau(with_means(1, 5, 5, cpu_share=0.2)).client_limit is False
    assert find_plateau(with_means(1, 5, 5)).client_limit is None


def test_one_size_tells_nothing() -> None:
    """A rise has two ends."""
    assert find_plateau(with_means(5)).reason == "1 size measured < 2"


def test_a_few_transfers_tell_nothing() -> None:
    """Four means with intervals as wide as themselves look level from the first on."""
    few = [cell.model_copy(update={"n": 4}) for cell in with_means(1, 2, 3)]
    assert find_plateau(few).reason == "n=4 < 10"
