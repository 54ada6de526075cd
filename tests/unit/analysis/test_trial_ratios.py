"""Published ratios of two trials' latencies beside ours."""

from __future__ import annotations

import math
from typing import Any

import pytest
from tests.samples.results import sample_results

from stepbench.analysis.trial_ratios import trial_replications
from stepbench.contracts.measures import Estimate
from stepbench.contracts.plan import Plan, TrialSpec
from stepbench.contracts.result import TrialSummary
from stepbench.planning.expansion import expand

S3, DYNAMODB, POSTGRESQL, _ = (result.summary for result in sample_results())
PHASES = [{"name": "unloaded", "load": [{"rate_per_s": 20, "count": 200}]}]


def specs(*published: dict[str, Any], repeats: int = 1) -> list[TrialSpec]:
    """Return trials of S3, DynamoDB and PostgreSQL; these numbers were published of S3."""
    numbers = [{"source": "A paper", **each} for each in published]
    trials: list[dict[str, Any]] = [
        {"target": {"store": store}, "phases": PHASES} for store in ("s3", "dynamodb", "postgresql")
    ]
    trials[0] |= {"published": numbers, "repeats": repeats}
    return list(expand(Plan.model_validate({"name": "plan", "trials": trials}), "run"))


def with_p50(trial: TrialSummary, p50: Estimate, **fields: Any) -> TrialSummary:  # noqa: ANN401 -- a summary's fields
    """Return the trial with another median, by either reading."""
    (window,) = trial.windows
    assert window.after_ack_ms is not None
    times = {
        name: getattr(window, name).model_copy(update={"p50": p50.over(divisor)})
        for name, divisor in (("latency_ms", 1), ("after_ack_ms", 2))
    }
    return trial.model_copy(update={"windows": (window.model_copy(update=times),), **fields})


def test_a_ratio_of_two_trials_has_an_interval_of_both() -> None:
    """Each median is within 10 % of itself; on a logarithmic scale such margins add up as squares."""
    around = [Estimate(value=at, low=at / 1.1, high=at * 1.1) for at in (400.0, 10.0)]
    trials = [with_p50(S3, around[0]), with_p50(POSTGRESQL, around[1])]
    (found,) = trial_replications(specs({"metric": "p50", "ratio": 10, "to": 100, "over_trial": "postgresql"}), trials)
    margin = math.exp(math.hypot(math.log(1.1), math.log(1.1)))
    assert (found.trial, found.over, found.unit, found.emulated) == ("s3", "p50 of postgresql", "ratio", ("s3",))
    assert found.ours.value == pytest.approx(40)
    assert (found.ours.low, found.ours.high) == pytest.approx((40 / margin, 40 * margin))
    assert (found.ratio.low, found.ratio.value, found.ratio.high) == (1, 1, 1)
    assert found.ours_after_ack is not None
    assert found.ours_after_ack.value == pytest.approx(40)


def test_another_metric_and_window_of_the_other_trial_may_be_named() -> None:
    """Its only window is it, whatever its name."""
    ours = {"metric": "p90", "ratio": 2, "over_metric": "p50", "over": "other", "over_trial": "dynamodb"}
    (found,) = trial_replications(specs(ours), [S3, DYNAMODB])
    p90, p50 = S3.windows[0].latency_ms.p90.value, DYNAMODB.windows[0].latency_ms.p50.value
    assert found.over == "p50 of dynamodb, other"
    assert p90 is not None
    assert p50 is not None
    assert found.ours.value == pytest.approx(p90 / p50)


def test_a_trial_that_is_not_there_has_no_ratio() -> None:
    """It was skipped, or broke off: half a window is not the other side."""
    published = {"metric": "p50", "ratio": 10, "over_trial": "postgresql"}
    for trials in ([S3, DYNAMODB], [S3, POSTGRESQL.model_copy(update={"incomplete": True})]):
        (found,) = trial_replications(specs(published), trials)
        reason = "no trial postgresql of this run went through whole"
        assert (found.ours.value, found.ratio.reason) == (None, reason)
    (found,) = trial_replications(specs(published), [S3, POSTGRESQL.model_copy(update={"windows": ()})])
    assert found.ours.reason == "not measured in both trials"


def test_repeats_are_scored_once_and_together() -> None:
    """Their geometric mean is what the published number is set beside."""
    repeated = specs({"metric": "p50", "ratio": 10, "over_trial": "postgresql"}, repeats=2)
    named = [spec for spec in repeated if spec.plan.target.store == "s3"]
    runs = [
        with_p50(S3, Estimate(value=at, reason="n=5 < 6"), name=spec.name, group=spec.group)
        for spec, at in zip(named, (20.0, 80.0), strict=True)
    ]
    other = with_p50(POSTGRESQL, Estimate(value=10.0, reason="n=5 < 6"))
    (found,) = trial_replications(repeated, [*runs, other])
    assert found.trial == named[0].group
    assert found.ours.value == pytest.approx(4)


def test_what_is_of_one_trial_is_scored_elsewhere() -> None:
    """A number in both lists would be on the page twice."""
    assert trial_replications(specs({"metric": "p50", "value_ms": 10}), [S3]) == ()
