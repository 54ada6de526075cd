from __future__ import annotations

import pytest

from stepbench.report.floors import floor_latency


def test_a_floors_median_lies_between_the_published_ranks() -> None:
    """n=20: Conover's table A3 gives the 6th and 15th order statistic for a median's 95 % interval."""
    p50 = floor_latency([float(place) for place in range(1, 21)]).p50
    assert (p50.value, p50.low, p50.high) == (10.5, 6.0, 15.0)


def test_a_floors_upper_quantiles_have_intervals_where_the_sample_allows() -> None:
    """n=200, q=0.9: exact binomial tails leave ranks 171 and 189 (P(X <= 170) = 0.0163, P(X >= 189) = 0.0168)."""
    floor = floor_latency([float(place) for place in range(200, 0, -1)])
    assert (floor.p90.low, floor.p90.high) == (171.0, 189.0)
    assert floor.p90.value == pytest.approx(180.1)
    assert (floor.p99.value, floor.p99.reason) == (None, "n=200 < 368")
    assert (floor.min, floor.mean, floor.max, floor.n, floor.missing) == (1.0, 100.5, 200.0, 200, 0)


def test_an_empty_floor_has_no_numbers() -> None:
    """A floor that could not be measured must not stop the report."""
    floor = floor_latency([])
    assert (floor.n, floor.p50.reason, floor.min, floor.mean, floor.max) == (0, "n=0 < 6", None, None, None)


@pytest.mark.parametrize(("name", "needed"), [("p50", 6), ("p90", 36), ("p95", 72), ("p99", 368), ("p999", 3_688)])
def test_a_quantile_needs_enough_samples_above_it(name: str, needed: int) -> None:
    """Below, no order statistic lies above the quantile with the confidence asked for."""
    enough = floor_latency([float(place) for place in range(needed)])
    assert getattr(enough, name).high == needed - 1
    assert getattr(floor_latency([1.0] * (needed - 1)), name).value is None
