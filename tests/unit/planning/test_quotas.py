"""Step Functions' token buckets: what a load takes of them, worked by hand, and by region."""

from __future__ import annotations

import pytest

from stepbench.contracts.phase import LoadStep
from stepbench.planning import decode_text, expanded, find_plan, list_plans, parse_plan
from stepbench.planning.quotas import STARTS, TRANSITIONS, Bucket, default_buckets, orchestration_problems


def load(*steps: tuple[float, float]) -> tuple[LoadStep, ...]:
    """Return steps of a rate and seconds each."""
    return tuple(LoadStep(rate_per_s=rate_per_s, duration_s=duration_s) for rate_per_s, duration_s in steps)


@pytest.mark.parametrize(
    ("steps", "each", "lasts"),
    [
        (((300, 3_600),), 1, True),  # no more than is refilled
        (((430, 10),), 1, True),  # 130 more a second: 1,300 in 10 s
        (((430, 10.1),), 1, False),
        (((430, 10), (0.001, 1), (599, 1)), 1, True),  # 300 come back within the second between
        (((430, 10), (600.5, 1)), 1, False),
        (((10, 60),), 30, True),
        (((15, 60),), 30, False),
    ],
)
def test_a_bucket_of_1300_lasts_as_long_as_its_refill(
    steps: tuple[tuple[float, float], ...], each: int, *, lasts: bool
) -> None:
    """A burst may be far above the rate that lasts."""
    assert Bucket(1_300, 300).lasts(load(*steps), each) is lasts


def test_three_regions_have_more_than_others() -> None:
    """The quotas of Standard Workflows by AWS's page."""
    assert default_buckets("eu-west-1")[STARTS][:2] == (1_300, 300)
    assert default_buckets("us-west-2")[TRANSITIONS][:2] == (5_000, 5_000)
    assert default_buckets("eu-central-1")[STARTS][:2] == (800, 150)
    assert default_buckets("ap-south-1")[TRANSITIONS][:2] == (800, 800)


def test_no_preset_is_refused_in_any_region() -> None:
    """Whoever deploys elsewhere runs the published plans, too."""
    plans = [parse_plan(decode_text(find_plan(name))) for name in list_plans()]
    dags = [plan for plan in plans if any(trial.plan.experiment == "dataflow" for trial in expanded(plan))]
    assert len(dags) >= 8
    for plan in dags:
        assert list(orchestration_problems(expanded(plan), default_buckets("eu-central-1"))) == []
