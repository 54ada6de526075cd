"""The share of trigger latency in an application's time: hand-worked."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError
from tests.samples.estimates import numbers
from tests.samples.results import sample_results

from stepbench.analysis.application import TrialMedian, share, trigger_shares
from stepbench.contracts.measures import Estimate
from stepbench.contracts.plan import Application
from stepbench.contracts.result import TrialSummary

TEN = Estimate(value=10, low=8, high=13)
HUNDRED = Estimate(value=100, low=97, high=104)
STORES = {"measured": TrialMedian("etcd", TEN), "s3": TrialMedian("s3", HUNDRED)}


def application(*functions: tuple[float, str | None]) -> Application:
    """Build a chain of functions, each with its duration and what starts it."""
    chain = [{"name": f"f{n}", "duration_ms": ms, "trigger": trigger} for n, (ms, trigger) in enumerate(functions)]
    return Application.model_validate({"name": "app", "source": "by hand", "functions": chain})


def test_one_trigger_between_two_functions() -> None:
    """30 ms of work and 10 ms of trigger are a quarter; its limits are 8 / 38 and 13 / 43."""
    found = share(application((10, None), (20, "measured")), STORES, "etcd")
    assert (found.compute_ms, found.triggers, found.trial) == (30, 1, "etcd")
    assert found.trigger_ms == TEN
    assert found.share.value == 0.25
    assert numbers(found.share) == pytest.approx((8 / 38, 0.25, 13 / 43))


def test_triggers_of_one_store_err_together() -> None:
    """One estimate counted twice is twice as wrong, not the root of two times."""
    found = share(application((80, "measured"), (0, "measured")), STORES, "etcd")
    assert found.trigger_ms == Estimate(value=20, low=16, high=26)
    assert found.share.value == 0.2


def test_triggers_of_two_stores_err_apart() -> None:
    """3 and 4 above give 5; 2 and 3 below give the root of 13."""
    found = share(application((10, "measured"), (10, "s3")), STORES, "etcd")
    assert found.trigger_ms.value == 110
    assert found.trigger_ms.high == 115
    assert found.trigger_ms.low == pytest.approx(110 - 13**0.5)


@pytest.mark.parametrize(
    ("median", "value", "reason"),
    [
        (None, None, "no trial measured s3"),
        (Estimate(value=None, reason="> drain limit"), None, "s3-2: > drain limit"),
        (Estimate(value=10, reason="n=3 < 6"), 0.5, "s3-2: n=3 < 6"),
        (
            Estimate(value=10, low=8, high=None, reason="upper limit > drain limit"),
            0.5,
            "s3-2: upper limit > drain limit",
        ),
    ],
)
def test_without_a_median_or_its_interval_there_is_a_reason(
    median: Estimate | None, value: float | None, reason: str
) -> None:
    """A share of a latency that nobody knows would be a number out of nowhere."""
    found = share(application((10, "s3")), {"s3": TrialMedian("s3-2", median)} if median else {}, "")
    assert (found.share.value, found.share.low, found.share.reason) == (value, None, reason)


def test_each_store_that_was_measured_gets_its_share() -> None:
    """The paper's figure compares them so; a chain that names all its stores appears once."""
    trials: list[TrialSummary] = [result.summary for result in sample_results()]
    measured, named = application((100, "measured")), application((100, "s3"))
    found = list(trigger_shares([measured, named], trials))
    assert [each.trial for each in found] == [*(trial.name for trial in trials), ""]
    s3 = next(trial for trial in trials if trial.store == "s3")
    _, median, _ = numbers(s3.windows[0].latency_ms.p50)
    assert found[-1].share.value == pytest.approx(median / (median + 100))


def test_a_trial_that_measured_nothing_says_so() -> None:
    """Its place in the figure stays empty, with the reason."""
    trial = sample_results()[0].summary.model_copy(update={"windows": ()})
    (found,) = trigger_shares([application((10, "measured"))], [trial])
    assert found.share.reason == f"{trial.name}: nothing was measured"


def test_one_trial_behind_two_names_is_one_estimate() -> None:
    """`measured` and `s3` are the same estimate: twice the error, not the root of two."""
    s3 = next(result.summary for result in sample_results() if result.summary.store == "s3")
    (found,) = trigger_shares([application((10, "measured"), (10, "s3"))], [s3])
    assert found.trigger_ms.low == pytest.approx(2 * numbers(s3.windows[0].latency_ms.p50)[0])
    assert found.trials == (s3.name,)


def test_a_named_store_is_the_plans_first_that_measured_it() -> None:
    """It is not the one that happened to run first, nor one that failed or was cut short."""
    first, second = (result.summary.model_copy(update={"store": "etcd"}) for result in sample_results()[:2])
    chain = [application((10, "etcd"))]

    def behind(*trials: TrialSummary, listed: tuple[str, ...] = ()) -> tuple[str, ...]:
        (found,) = trigger_shares(chain, trials, listed)
        return found.trials

    assert behind(first, second) == (first.name,)
    assert behind(first, second, listed=(second.name, first.name)) == (second.name,)
    assert behind(first.model_copy(update={"windows": ()}), second) == (second.name,)
    assert behind(first.model_copy(update={"incomplete": True}), second) == (second.name,)


@pytest.mark.parametrize(
    ("functions", "said"),
    [
        ([{"name": "f", "duration_ms": 1}], "have no trigger"),
        ([{"name": "f", "duration_ms": 0, "trigger": "s3"}], "take no time"),
    ],
)
def test_an_application_without_triggers_or_time_is_refused(functions: list[dict[str, Any]], said: str) -> None:
    """There is no share to tell."""
    with pytest.raises(ValidationError, match=said):
        Application.model_validate({"name": "app", "source": "by hand", "functions": functions})
