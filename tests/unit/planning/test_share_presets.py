"""The presets of the paper's Fig. 2: what they say of shares is what the chart would draw at the paper's median."""

from __future__ import annotations

import pytest

from stepbench.analysis.share import Measured, share
from stepbench.contracts.measures import Estimate
from stepbench.planning import find_plan, parse_plan

S3_MEDIAN_MS = 1_157
"""TriggerPerf, Fig. 5."""


@pytest.mark.parametrize("preset", ["quick-share", "paper-share"])
def test_durations_are_those_that_the_published_shares_imply(preset: str) -> None:
    """2 % to 62 % is all that the paper tells; the third application is made up, and says so."""
    plan = parse_plan(find_plan(preset))
    assert [trial.target.store for trial in plan.trials] == ["s3", "dynamodb", "postgresql", "etcd"]
    s3 = {"measured": Measured("s3", Estimate(value=S3_MEDIAN_MS, low=S3_MEDIAN_MS, high=S3_MEDIAN_MS))}
    *implied, example = plan.applications
    found = {each.name: share(each, s3, "s3").share.value for each in implied}
    assert found == {"Fig. 2, 62 %": pytest.approx(0.62, abs=1e-4), "Fig. 2, 2 %": pytest.approx(0.02, abs=1e-5)}
    assert all(each.source.startswith("Implied, not measured") for each in implied)
    assert example.source.startswith("Made up")
