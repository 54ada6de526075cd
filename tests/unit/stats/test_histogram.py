"""Histograms of times, for a look while a run goes on."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from stepbench.stats.histogram import count_times, histogram_quantile_ns, histogram_text, parse_histogram


def test_buckets_are_of_equal_ratio() -> None:
    """2 ** 20 ns begins bucket 320, and 2 ** 20.5 ns bucket 328; what took no time, or less, is in the first."""
    times = np.array([2**20, 2**20 + 1, round(2**20.5) + 1, 1, 0, -5], np.int64)
    assert count_times(times) == {320: 2, 328: 1, 0: 3}
    assert count_times(np.array([], np.int64)) == {}


def test_it_survives_its_way_through_a_heartbeat() -> None:
    """Writers tell it as text; of nothing, as none."""
    counts = Counter({318: 12, 2: 1})
    assert histogram_text(counts) == "2:1 318:12"
    assert parse_histogram("2:1 318:12") == counts
    assert parse_histogram(histogram_text(Counter())) == {}


@pytest.mark.parametrize("q", [0.01, 0.5, 0.9, 0.99, 1.0])
def test_writers_together_have_the_quantiles_of_all_their_times(q: float) -> None:
    """To half a bucket, 2.2 %: medians of writers could not be put together at all."""
    rng = np.random.default_rng(1)
    parts = [rng.lognormal(13, 0.5, 3_000).astype(np.int64), rng.lognormal(15, 0.2, 500).astype(np.int64)]
    together = count_times(parts[0]) + count_times(parts[1])
    exact = float(np.quantile(np.concatenate(parts), q, method="inverted_cdf"))
    assert histogram_quantile_ns(together, q) == pytest.approx(exact, rel=0.022)


def test_nothing_has_no_quantile() -> None:
    """A zero would look like a very fast store."""
    assert histogram_quantile_ns(Counter(), 0.5) is None
