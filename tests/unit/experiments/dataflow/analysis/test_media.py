"""Which store for a DAG, and what was published of it: over trials of one run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pydantic import ValidationError
from tests.samples.dags import dataflow_trial
from tests.samples.finished_dags import FORK, slower_each_time

from stepbench.contracts.measures import Estimate
from stepbench.contracts.plan import TrialPlan, TrialSpec
from stepbench.contracts.published import Published
from stepbench.experiments.dataflow.analysis.media import dag_replications, medium_answers

if TYPE_CHECKING:
    from stepbench.contracts.result import TrialSummary

TODAY = "us-east-1, none older than"


@pytest.fixture(scope="module")
def measured() -> TrialSummary:
    """One trial of eight executions."""
    return slower_each_time().result().summary


def _as(summary: TrialSummary, name: str, p50: Estimate, perf: Estimate, **fields: Any) -> TrialSummary:  # noqa: ANN401 -- a summary's fields
    """Return the trial with this store, median time and performance per dollar by every table."""
    assert summary.dataflow is not None
    window = summary.dataflow.windows[0]
    timed = window.end_to_end_ms.model_copy(update={"p50": p50})
    costs = tuple(cost.model_copy(update={"perf_per_usd": perf}) for cost in summary.dataflow.costs)
    flow = summary.dataflow.model_copy(
        update={"windows": (window.model_copy(update={"end_to_end_ms": timed}),), "costs": costs}
    )
    return summary.model_copy(update={"name": name, "group": name, "store": name, "dataflow": flow, **fields})


def _about(value: float, width: float = 0.02) -> Estimate:
    return Estimate(value=value, low=value * (1 - width), high=value * (1 + width))


def test_the_fastest_is_not_the_cheapest(measured: TrialSummary) -> None:
    """Redis is twice as fast as Cassandra, which gives half as much again for a dollar."""
    trials = [_as(measured, "redis", _about(100), _about(20)), _as(measured, "cassandra", _about(200), _about(30))]
    by_time, *by_dollars = medium_answers(trials)
    assert [medium.name for medium in by_time.ranked] == ["redis", "cassandra"]
    assert by_time.sure
    assert by_time.advantage is not None
    assert by_time.advantage.value == pytest.approx(2)
    assert by_time.text.startswith("For fork, redis is the fastest: cassandra takes 2.00")
    assert [(answer.ranked[0].name, answer.sure) for answer in by_dollars] == [("cassandra", True)] * 4
    assert [answer.idle for answer in by_dollars] == [False, True, False, True]
    assert by_dollars[0].text.startswith(f"For fork, per dollar ({TODAY}")
    assert "cassandra gives the most performance per dollar: 1.50" in by_dollars[0].text


def test_what_is_not_shown_is_not_claimed(measured: TrialSummary) -> None:
    """Intervals that overlap, or a third store that may be the best as well."""
    close = [_as(measured, "redis", _about(100), _about(20)), _as(measured, "cassandra", _about(101), _about(20))]
    third = [*close, _as(measured, "s3", _about(300), _about(5))]
    for trials in (close, third):
        answer = medium_answers(trials)[0]
        assert not answer.sure
        assert "no store is shown to be the fastest; redis has the lowest median" in answer.text


def test_of_several_windows_each_is_named(measured: TrialSummary) -> None:
    """The same sentence twice, with other numbers, would contradict itself."""
    trials = []
    for name, value in (("redis", 100), ("cassandra", 200)):
        trial = _as(measured, name, _about(value), _about(20))
        assert trial.dataflow is not None
        windows = (*trial.dataflow.windows, trial.dataflow.windows[0].model_copy(update={"window": "again"}))
        trials.append(trial.model_copy(update={"dataflow": trial.dataflow.model_copy(update={"windows": windows})}))
    answers = [answer for answer in medium_answers(trials) if answer.measure == "end_to_end"]
    assert [answer.window for answer in answers] == [answers[0].window, "again"]
    assert [answer.text.partition(",")[0] for answer in answers] == [f"For fork in {each.window}" for each in answers]


def test_an_emulated_store_is_not_ranked(measured: TrialSummary) -> None:
    """Its times say nothing about AWS's, however fast it is here."""
    trials = [
        _as(measured, "s3", _about(1), _about(900), emulated=True),
        _as(measured, "redis", _about(100), _about(20)),
        _as(measured, "cassandra", _about(200), _about(10)),
    ]
    answer = medium_answers(trials)[0]
    assert [medium.name for medium in answer.ranked] == ["redis", "cassandra"]
    assert answer.not_ranked == ("s3",)
    assert answer.text.endswith(" s3: emulated, and not ranked.")


def test_a_store_at_which_most_executions_failed_is_named(measured: TrialSummary) -> None:
    """It has no median, and performs nothing for its dollars: to leave it out would hide that."""
    none = _about(200).model_copy(update={"value": None, "low": None, "high": None})
    trials = [_as(measured, "redis", none, _about(0)), _as(measured, "cassandra", _about(200), _about(10))]
    answers = medium_answers(trials)
    assert {answer.failed for answer in answers} == {("redis",)}
    assert answers[0].text == "For fork, only cassandra can be ranked. redis: most executions failed, and not ranked."


def test_only_the_same_work_is_compared(measured: TrialSummary) -> None:
    """Another DAG of the same name, or another load, is another experiment."""
    slower = measured.setup | {"phases[run].load[0].rate_per_s": 9}
    trials = [
        _as(measured, "redis", _about(100), _about(20)),
        _as(measured, "cassandra", _about(200), _about(30), setup=slower),
    ]
    assert medium_answers(trials) == ()


def _spec(*published: dict[str, Any], names: tuple[str, ...] = ("run",)) -> TrialSpec:
    phases = [{"name": name, "load": [{"rate_per_s": 1, "count": 8}]} for name in names]
    plan = TrialPlan.model_validate(dataflow_trial(FORK.model_dump(), published=published, phases=phases))
    return TrialSpec(run_id="run-1", index=0, name="cassandra", tag="a" * 10 + "-0000", plan=plan, estimate_usd=0)


def test_published_ratios_are_of_trials(measured: TrialSummary) -> None:
    """+189 % is 2.89 times; ours is 1.5, which is 0.52 of it. What contradicts it stays with it."""
    trials = [_as(measured, "s3", _about(100), _about(20)), _as(measured, "cassandra", _about(200), _about(30))]
    published = {"metric": "perf_per_dollar", "trial": "cassandra", "over_trial": "s3", "ratio": 2.89,
                 "source": "Asgard, abstract", "note": "3.06 in its introduction."}  # fmt: skip
    times = {"metric": "end_to_end", "over_trial": "s3", "ratio": 0.4, "source": "Asgard, 4.1"}
    found = dag_replications([_spec(published, times), _spec(published)], trials)
    assert len(found) == 2
    assert found[0].ours.value == pytest.approx(1.5)
    assert found[0].ratio.value == pytest.approx(1.5 / 2.89)
    assert found[0].ours_idle is not None
    assert (found[0].dag, found[0].phase, found[0].note) == ("fork", "run", "3.06 in its introduction.")
    assert found[1].trial == "cassandra"
    assert found[1].ours.value == pytest.approx(2)


def _twice(measured: TrialSummary, name: str, first: float, second: float) -> TrialSummary:
    """Return a trial with these times and performances in the windows `run` and `again`."""
    trial, other = (_as(measured, name, _about(each), _about(each)) for each in (first, second))
    assert trial.dataflow is not None
    assert other.dataflow is not None
    again = {"phase": "again", "window": "again"}
    windows = (*trial.dataflow.windows, *(each.model_copy(update=again) for each in other.dataflow.windows))
    costs = (*trial.dataflow.costs, *(each.model_copy(update=again) for each in other.dataflow.costs))
    return trial.model_copy(update={"dataflow": trial.dataflow.model_copy(update={"windows": windows, "costs": costs})})


def test_a_number_without_a_window_is_of_all_together(measured: TrialSummary) -> None:
    """By hand: 100 and 400 against 50 and 50 are 2 and 8 times as much, and 4 times together."""
    trials = [_twice(measured, "adaptive", 100, 400), _twice(measured, "default", 50, 50)]
    longer = {"metric": "end_to_end", "trial": "adaptive", "over_trial": "default", "ratio": 0.987, "source": "Fig. 8"}
    spec = _spec(longer, longer | {"metric": "perf_per_dollar"}, names=("run", "again"))
    found = dag_replications([spec], trials)
    assert [each.ours.value for each in found] == pytest.approx([4, 4])
    assert {(each.dag, each.window) for each in found} == {("fork", "run, again")}
    lacking = _as(measured, "default", _about(50), _about(50))
    reasons = {each.ours.reason for each in dag_replications([spec], [trials[0], lacking])}
    assert reasons == {"not measured in both trials"}


def test_a_share_and_what_cannot_be_scored(measured: TrialSummary) -> None:
    """A trial that did not go through leaves its number without a value, with the reason."""
    share = {"metric": "passing_share", "share": 0.75, "bound": "above", "source": "Asgard, 1"}
    absent = {"metric": "end_to_end", "over_trial": "redis", "ratio": 0.5, "source": "Asgard, 4.1"}
    spread = {"metric": "perf_per_dollar_spread", "over_trial": "s3", "ratio": 1, "bound": "up_to", "source": "Fig. 8"}
    trials = [
        _as(measured, "cassandra", _about(1), _about(1)),
        _as(measured, "s3", _about(1), _about(1), emulated=True),
    ]
    found = dag_replications([_spec(share, absent, spread)], trials)
    window = measured.dataflow.windows[0] if measured.dataflow else None
    assert window is not None
    assert found[0].ours == window.passing_on_path
    assert found[1].ours.reason == "no trial redis of this run went through whole"
    assert found[2].ours.reason == "1 of 3 runs"
    assert found[2].caveat == "the store of s3 is emulated: its times say nothing about AWS"


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"metric": "perf_per_dollar", "ratio": 2}, "over_trial: is missing"),
        ({"metric": "perf_per_dollar", "share": 0.5, "over_trial": "a"}, "share: does not go with perf_per_dollar"),
        ({"metric": "passing_share", "ratio": 0.5}, "ratio: does not go with passing_share"),
        ({"metric": "end_to_end", "ratio": 2, "over_trial": "a", "over": "b"}, "over: does not go with end_to_end"),
    ],
)
def test_a_published_number_says_what_it_is_over(fields: dict[str, Any], said: str) -> None:
    """A ratio without its other side cannot be scored."""
    with pytest.raises(ValidationError, match=said):
        Published.model_validate({"source": "Asgard", **fields})
