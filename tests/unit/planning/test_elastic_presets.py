from __future__ import annotations

import pytest

from stepbench.errors import PlanError
from stepbench.planning import find_plan, parse_plan

STORES = ("s3", "dynamodb", "postgresql", "etcd")


@pytest.mark.parametrize("store", STORES)
def test_elastic_presets_of_the_paper_step_as_the_paper_did(store: str) -> None:
    """Section VI-C: 15 min (S3: 40) at 2,000/s, then 3 min at 2,000 and 3 min at 4,000; minutes 3 and 4 count."""
    (trial,) = parse_plan(find_plan(f"paper-elastic-{store}")).trials
    warm_up, step = trial.phases
    assert trial.target.store == store
    assert [(load.rate_per_s, load.duration_s) for load in warm_up.load] == [(2_000, 2_400 if store == "s3" else 900)]
    assert [(load.rate_per_s, load.duration_s) for load in step.load] == [(2_000, 180), (4_000, 180)]
    assert [(window.from_s, window.to_s) for window in step.windows] == [(120, 180), (180, 240)]
    assert (warm_up.measured, step.measured, trial.writers) == (False, True, 10)


@pytest.mark.parametrize("store", STORES)
def test_quick_elastic_presets_double_the_load_inside_one_phase(store: str) -> None:
    """Windows of 20 s on either side of the step, which blocks of a second fill twenty times."""
    (trial,) = parse_plan(find_plan(f"quick-elastic-{store}")).trials
    first, second = trial.phases[1].load
    assert trial.target.store == store
    assert second.rate_per_s == 2 * first.rate_per_s
    before, after = trial.phases[1].windows
    assert before.to_s == after.from_s == first.duration_s
    assert before.to_s - before.from_s == after.to_s - after.from_s == 20


def test_presets_carry_the_numbers_that_were_published() -> None:
    """TriggerPerf, sections VI-A and VI-C."""
    unloaded = {trial.target.store: trial.published for trial in parse_plan(find_plan("paper-unloaded")).trials}
    numbers = {
        store: [(each.metric, each.value_ms, each.bound) for each in published] for store, published in unloaded.items()
    }
    assert numbers == {
        "s3": [("p50", 1_157, None), ("p90", 1_700, "above")],
        "dynamodb": [("p50", 170, None)],
        "postgresql": [("p50", 103, None)],
        "etcd": [("p50", 2.6, None)],
    }
    for store, published in unloaded.items():
        assert parse_plan(find_plan(f"paper-unloaded-{store}")).trials[0].published == published
    elastic = parse_plan(find_plan("paper-elastic-s3")).trials[0].published
    assert [(each.window, each.value_ms) for each in elastic] == [("before", 1_157), ("after", 1_335)]
    aurora = parse_plan(find_plan("paper-elastic-postgresql")).trials[0].published
    assert [(each.metric, each.ratio, each.over or each.over_metric) for each in aurora] == [
        ("iqr", 2, "before"),
        ("p90", 9, "p50"),
    ]


def test_a_published_number_names_a_measured_window() -> None:
    """Nothing would be set beside it."""
    plan = find_plan("paper-elastic-s3").replace(b'"window": "before"', b'"window": "befor"')
    with pytest.raises(PlanError, match="names no measured window") as refused:
        parse_plan(plan)
    (problem,) = refused.value.problems
    assert (problem.path, problem.remedy) == (
        "trials[0].published[0].window",
        'Name one of "before", "after", or remove it.',
    )


def test_a_published_number_names_one_window_only() -> None:
    """Windows of two phases may share a name, but a number is about one of them."""
    plan = b"""{"name": "two", "trials": [{"target": {"store": "etcd"}, "phases": [
        {"name": "a", "load": [{"rate_per_s": 1, "count": 9}], "windows": [{"name": "w", "from_s": 0, "to_s": 5}]},
        {"name": "b", "load": [{"rate_per_s": 1, "count": 9}], "windows": [{"name": "w", "from_s": 0, "to_s": 5}]}],
        "published": [{"metric": "p50", "value_ms": 1, "source": "x", "window": "w"}]}]}"""
    with pytest.raises(PlanError, match="several phases"):
        parse_plan(plan)


@pytest.mark.parametrize(
    ("number", "field", "message"),
    [
        ('"metric": "p50"', "value_ms", "is missing, and so is ratio"),
        ('"metric": "p50", "value_ms": 1, "ratio": 2', "value_ms", "stands beside ratio (2)"),
        ('"metric": "p50", "value_ms": 1, "over": "w"', "over", "belongs to a ratio, and there is none"),
        ('"metric": "iqr", "value_ms": 1', "metric", "is iqr, which is scored in ratios only"),
        ('"metric": "p50", "ratio": 2, "over": "w"', "ratio", "is of a number over itself"),
        ('"metric": "p50", "ratio": 2, "over": "v"', "over", "names no measured window"),
    ],
)
def test_a_published_number_is_a_time_or_a_ratio(number: str, field: str, message: str) -> None:
    """Of two things that are both measured."""
    plan = f"""{{"name": "one", "trials": [{{"target": {{"store": "etcd"}}, "phases": [
        {{"name": "w", "load": [{{"rate_per_s": 1, "count": 9}}]}}],
        "published": [{{{number}, "source": "x", "window": "w"}}]}}]}}"""
    with pytest.raises(PlanError) as refused:
        parse_plan(plan.encode())
    (problem,) = refused.value.problems
    assert (problem.path, problem.message) == (f"trials[0].published[0].{field}", message)
