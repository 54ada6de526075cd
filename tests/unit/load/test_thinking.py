from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
from scipy import stats

from stepbench.load.thinking import think_times_ns


def first(client: int) -> int:
    """A client's first constant pause."""
    return next(think_times_ns(0.37, "constant", (7, client)))


def test_constant_pauses_are_alike_after_a_random_beginning() -> None:
    """Ten clients in step would be a burst of ten every 0.37 s, and no low load."""
    pauses = list(islice(think_times_ns(0.37, "constant", (7, 0)), 50))
    assert set(pauses[1:]) == {370_000_000}
    firsts = np.array([first(client) for client in range(500)])
    assert stats.kstest(firsts / 370_000_000, "uniform").pvalue > 0.001


def test_exponential_pauses_have_their_mean_and_no_memory() -> None:
    """Kolmogorov-Smirnov against the exponential distribution, 3,000 pauses over several blocks."""
    pauses = np.array(list(islice(think_times_ns(0.01, "exponential", (7, 0)), 3_000)))
    assert stats.kstest(pauses / 10_000_000, "expon").pvalue > 0.001
    assert pauses[:1_024].tolist() != pauses[1_024:2_048].tolist()


@pytest.mark.parametrize("distribution", ["constant", "exponential"])
def test_no_pause_is_no_pause(distribution: str) -> None:
    """Throughput mode: all begin together."""
    assert set(islice(think_times_ns(0, distribution, (7, 0)), 2_000)) == {0}  # type: ignore[arg-type]


def test_pauses_follow_from_the_seed() -> None:
    """A retried attempt pauses alike; another client does not."""
    assert first(3) == first(3) != first(4)
