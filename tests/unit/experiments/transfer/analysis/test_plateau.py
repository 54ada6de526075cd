from __future__ import annotations

import numpy as np
import pytest
from tests.samples.planted_transfers import NOTHING, Simulation

from stepbench.contracts.measures import Estimate
from stepbench.contracts.transfer.result import TransferCell, TransferModes
from stepbench.experiments.transfer.analysis.cells import describe_cell
from stepbench.experiments.transfer.analysis.plateau import find_plateau
from stepbench.experiments.transfer.analysis.reads import pairs_of


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
