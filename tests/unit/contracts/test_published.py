"""Published numbers as plans may have them."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

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
    ],
)
def test_what_no_number_can_be_is_refused(fields: dict[str, Any], said: str) -> None:
    """It would be scored as something else."""
    with pytest.raises(ValidationError) as refused:
        Published.model_validate({**TIME, **fields})
    assert said in str(refused.value).replace(": ", " ")


def test_percentiles_are_named_by_their_digits() -> None:
    """p9990234375 is 1 - 2 ** -10."""
    assert QUANTILE_METRICS["p50"] == 0.5
    assert QUANTILE_METRICS["p999"] == 0.999
    assert QUANTILE_METRICS["p9921875"] == 1 - 2**-7
    assert QUANTILE_METRICS["p9990234375"] == 1 - 2**-10
