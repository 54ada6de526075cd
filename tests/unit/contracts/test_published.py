"""Published numbers as plans may have them."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from stepbench.contracts.measures import Estimate
from stepbench.contracts.published import QUANTILE_METRICS, Published

TIME = {"metric": "p75", "value_ms": 2.5, "source": "a paper"}


@pytest.mark.parametrize(
    ("fields", "number"),
    [
        ({"count": 19_557}, 2.5),
        ({"metric": "max"}, 2.5),
        ({"metric": "throughput", "value_ms": None, "per_minute": 26_062}, 26_062),
        ({"metric": "ks", "value_ms": None, "d": 0.14}, 0.14),
        ({"metric": "p90", "value_ms": None, "ratio": 9, "over_metric": "p50"}, 9),
    ],
)
def test_a_number_is_what_its_metric_asks_for(fields: dict[str, Any], number: float) -> None:
    """Each has one place, and `number` finds it."""
    assert Published.model_validate({**TIME, **fields}).number == number


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"value_ms": None}, "value_ms is missing"),
        ({"metric": "ks"}, "value_ms does not go with ks"),
        ({"metric": "p50", "value_ms": None, "d": 0.1}, "d does not go with p50"),
        ({"metric": "throughput", "value_ms": None, "per_minute": 1, "count": 1}, "count belongs to a time"),
        ({"metric": "p90", "count": 1}, "count belongs to a row of the table of percentiles, which has no p90"),
        ({"value_ms": None, "ratio": 2, "over": "before"}, "metric is p75, which is scored by itself only"),
        ({"metric": "p90", "value_ms": None, "ratio": 2, "over_metric": "max"}, "metric is max, which is scored"),
        ({"metric": "ks", "value_ms": None, "ratio": 2, "over": "before"}, "Give d instead of ratio"),
        ({"d": 0.2}, "value_ms stands beside d"),
        ({"metric": "ks", "value_ms": None, "d": 0.1, "to": 0.2}, "to does not go with ks"),
        ({"metric": "write_p50", "value_ms": None, "ratio": 2, "over_trial": "s3"}, "Give value_ms instead of ratio"),
    ],
)
def test_what_no_number_can_be_is_refused(fields: dict[str, Any], said: str) -> None:
    """It would be scored as something else."""
    with pytest.raises(ValidationError) as refused:
        Published.model_validate({**TIME, **fields})
    assert said in str(refused.value).replace(": ", " ")


@pytest.mark.parametrize(("ours", "ratio"), [(1.75, 0.5), (3.5, 1), (3.8, 1), (4, 1), (8, 2), (None, None)], ids=str)
def test_a_range_is_scored_by_its_nearer_end(ours: float | None, ratio: float | None) -> None:
    """Whatever lies within replicates it; beyond, the distance counts from where the range ends."""
    published = Published.model_validate({**TIME, "metric": "p90", "value_ms": 3.5, "to": 4})
    assert published.score(Estimate(value=ours, reason="no interval")).value == ratio


def test_the_interval_of_a_score_is_that_of_ours() -> None:
    """Of a single number all three are divided by it; of a range an end may lie within, and the other beyond."""
    ours = Estimate(value=3.8, low=1.75, high=8)
    ranged = Published.model_validate({**TIME, "metric": "p90", "value_ms": 3.5, "to": 4})
    assert ranged.score(ours) == Estimate(value=1, low=0.5, high=2)
    assert Published.model_validate({**TIME, "value_ms": 2}).score(ours) == Estimate(value=1.9, low=0.875, high=4)


def test_percentiles_are_named_by_their_digits() -> None:
    """p9990234375 is 1 - 2 ** -10."""
    assert QUANTILE_METRICS["p50"] == 0.5
    assert QUANTILE_METRICS["p999"] == 0.999
    assert QUANTILE_METRICS["p9921875"] == 1 - 2**-7
    assert QUANTILE_METRICS["p9990234375"] == 1 - 2**-10
