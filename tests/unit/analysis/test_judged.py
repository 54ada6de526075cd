"""What a run is judged by: one measure, of a window, of several runs, and of one side against another."""

from __future__ import annotations

from typing import Any

import pytest
from tests.samples.comparisons import SHORT, estimate, run, trial, window
from tests.samples.operations import operation_results

from stepbench.analysis.judged import cost_per_million, first_sentence, judged_over_runs
from stepbench.analysis.run_comparison import Selected, compare_summaries
from stepbench.analysis.verdict_text import MOST_WORDS
from stepbench.analysis.verdicts import plan_verdicts
from stepbench.contracts.cost import Cost, CostItem
from stepbench.contracts.measures import Estimate, WindowResult
from stepbench.contracts.result import TrialSummary
from stepbench.contracts.threshold_grammar import parse_judge

CHANGED = {"p99": estimate(40), "max": 90.0}


def with_p99(p99: Estimate, p50_ms: float = 5, largest_ms: float = 60, **changes: Any) -> WindowResult:  # noqa: ANN401 -- a window's fields
    """Build a window with this p99 and maximum."""
    found = window(estimate(p50_ms), **changes)
    update = {"p99": p99, "max": largest_ms, "missing": 0}
    return found.model_copy(update={"latency_ms": found.latency_ms.model_copy(update=update)})


def costing(usd: float, sent: int = 200_000) -> TrialSummary:
    """Build a trial whose store took so much for so many events."""
    item = CostItem(part="store", item="writes", unit="request", quantity=1, unit_price_usd=usd, usd=usd)
    made = trial("etcd", window(estimate(5)), cost_usd=Cost(estimate=0, actual=usd, items=(item,)), warm_up=None)
    assert made.accounting is not None
    return made.model_copy(update={"accounting": made.accounting.model_copy(update={"sent": sent})})


def said(judge: str, *windows: WindowResult) -> str:
    """Return the first sentence of the answer on some runs."""
    return first_sentence(parse_judge(judge), [(trial("etcd", each), each) for each in windows])


def test_without_a_measure_an_answer_begins_as_ever() -> None:
    """Plans as they were have pages as they were."""
    one = window(estimate(5))
    assert first_sentence(None, [(trial("etcd", one), one)]) == ""


@pytest.mark.parametrize(
    ("judge", "sentence"),
    [
        ("p50", ""),
        ("p99", "p99 ~9.00 ms (no interval: a run about 1.8 × longer decides it). "),  # noqa: RUF001 -- times
        ("max", "Max ~60.0 ms (no interval: 3 runs of it (repeats) have one). "),
        ("errors", "Errors 0.50 % (0.14 to 1.80). "),
        ("throughput", "Throughput ~20.0/s (no interval: 3 runs of it (repeats) have one). "),
        ("time to processed p99", "Time to processed p99: not measured. "),
    ],
)
def test_an_answer_begins_with_the_measure(judge: str, sentence: str) -> None:
    """Where it has no interval, with the run that decides it."""
    one = with_p99(SHORT, sent=400, failed=1, unknown=1, achieved_per_s=20)
    assert said(judge, one) == sentence


def test_over_three_runs_even_a_maximum_has_an_interval() -> None:
    """It has no error of its own in a run; how far runs lie apart is what is known of it."""
    runs = [with_p99(estimate(20), largest_ms=ms) for ms in (50.0, 60.0, 55.0)]
    found = judged_over_runs(parse_judge("max"), [(trial("etcd", each), each) for each in runs])
    assert found.value == pytest.approx(54.85, abs=0.01)
    assert found.low is not None
    assert found.low < 50
    assert (found.high or 0) > 60


def test_a_cost_is_that_of_a_million_events() -> None:
    """Trials of different lengths are set against each other."""
    assert cost_per_million(costing(0.5)).value == pytest.approx(2.5)
    assert cost_per_million(costing(0.5, sent=0)).reason == "nothing was counted"
    unknown = costing(0.5).model_copy(
        update={"cost_usd": costing(0.5).cost_usd.model_copy(update={"incomplete": ("store",)})}
    )
    assert cost_per_million(unknown).reason == "not all of store is known"


@pytest.mark.parametrize(
    ("judge", "a", "b", "text"),
    [
        (
            "p99",
            with_p99(estimate(20)),
            with_p99(estimate(40), 2.5),
            "b is slower at p99: 40.0 against 20.0 ms, 2.00 times [1.94, 2.06]; faster at p50 and p90.",
        ),
        (
            "p99",
            with_p99(estimate(20)),
            with_p99(estimate(20.2), 10),
            "b is the same within 10 % at p99: 20.2 against 20.0 ms, 1.01 times [0.98, 1.04]; slower at p50 and p90.",
        ),
        (
            "p99",
            with_p99(SHORT),
            with_p99(SHORT, 10),
            (
                "Not decided: p99 is 9.00 against 9.00 ms; a run about 1.8 × longer decides it; "  # noqa: RUF001 -- times
                "slower at p50 and p90."
            ),
        ),
        (
            "max",
            with_p99(estimate(20)),
            with_p99(estimate(20), 10, 90),
            "Not decided: max is 90.0 against 60.0 ms; 3 runs of it (repeats) have one; slower at p50 and p90.",
        ),
        (
            "errors",
            with_p99(estimate(20), sent=1_000, failed=1),
            with_p99(estimate(20), 10, sent=1_000, failed=100),
            "b has more errors: 10 % against 0.1 %; slower at p50 and p90.",
        ),
        (
            "errors",
            with_p99(estimate(20), sent=1_000),
            with_p99(estimate(20), 10, sent=1_000),
            "b is the same in errors: none on either side; slower at p50 and p90.",
        ),
    ],
)
def test_a_verdict_answers_the_measure_first(judge: str, a: WindowResult, b: WindowResult, text: str) -> None:
    """Then comes what else differs, in as many words as there is room for."""
    sides = [trial("a", a, store="s3"), trial("b", b, index=1, store="b")]
    (found,) = plan_verdicts(sides, judge=parse_judge(judge))
    assert found.text == text
    assert found.judged == found.effects[0].measure == judge
    assert len(found.text.split()) <= MOST_WORDS


def test_rates_and_costs_are_called_higher_not_slower() -> None:
    """Three runs of each are needed, since a run's rate has no error of its own."""
    sides = [
        trial(name, window(estimate(5), achieved_per_s=per_s + n), store=name, index=n, repeat=n, group=name)
        for name, per_s in (("a", 100.0), ("b", 200.0))
        for n in range(3)
    ]
    (found,) = plan_verdicts(sides, judge=parse_judge("throughput"))
    assert found.text.startswith("b has a higher throughput: 201 against 101/s, 1.99 times [")


def test_windows_of_one_trial_have_no_cost_of_their_own() -> None:
    """What is known is what the whole trial cost."""
    one = trial("etcd", window(estimate(5), "before"), window(estimate(9), "after"))
    (found,) = plan_verdicts([one], judge=parse_judge("cost"))
    assert found.text.startswith("Not decided: cost cannot be compared (known of whole trials alone); slower at p50")


@pytest.mark.parametrize(
    ("judge", "known"),
    [("throughput", False), ("cost", False), ("lost", False), ("lateness p99", False), ("p99", True), ("errors", True)],
)
def test_one_kind_of_operation_is_judged_by_what_is_known_of_it(judge: str, known: bool) -> None:  # noqa: FBT001
    """Its reads have no throughput and no cost of their own: to say those of all together would be wrong."""
    trials = [result.summary for result in operation_results()]
    kinds = [each for each in plan_verdicts(trials, judge=parse_judge(judge)) if each.kind is not None]
    plain = [each for each in plan_verdicts(trials) if each.kind is not None]
    assert kinds
    assert {each.judged for each in kinds} == {judge if known else ""}
    assert ([each.text for each in kinds] == [each.text for each in plain]) is not known
    assert all(each.effects[0].measure == (judge if known else "p50") for each in kinds)


def test_operations_lose_nothing() -> None:
    """Nothing delivers them: neither an answer nor a comparison has a share of lost ones."""
    trials, asked = [result.summary for result in operation_results()], parse_judge("lost")
    own = trials[0]
    assert first_sentence(asked, [(own, own.windows[0])]) == "Lost: not measured. "
    found = [each for each in plan_verdicts(trials, judge=asked) if each.kind is None]
    assert {each.effects[0].a.value for each in found} == {None}
    assert found[0].text.startswith("Not decided: lost cannot be compared (not measured)")


def test_runs_are_compared_by_what_the_newer_one_is_judged_by() -> None:
    """A plan that came to be judged by its p99 asks the same of its earlier runs."""
    judge = parse_judge("p99")
    a = run(trial("etcd", with_p99(estimate(20))), run_id="a")
    b = run(trial("etcd", with_p99(estimate(40), 2.5)), run_id="b").model_copy(update={"judge": judge})
    (found,) = compare_summaries(Selected([a]), Selected([b]), 0.05).verdicts
    assert found.text.startswith("B is slower at p99: 40.0 against 20.0 ms")
    assert [effect.measure for effect in found.effects if effect.regressed] == ["p99"]
    (back,) = compare_summaries(Selected([b]), Selected([a]), 0.05).verdicts
    assert back.judged == ""
