from __future__ import annotations

from typing import Any

import pytest

from stepbench.contracts.identity import trial_tag
from stepbench.experiments.estimates import budgeted, estimate
from stepbench.planning import check_budget, expand, group_names, parse_plan

PHASES = [{"name": "a", "load": [{"rate_per_s": 10, "count": 20}]}]


def trial(store: str = "s3", **fields: object) -> dict[str, Any]:
    """Return a small trial."""
    return {"target": {"store": store}, "phases": PHASES, **fields}


def names(*trials: dict[str, Any]) -> list[str]:
    """Return the names of these trials of a plan, in the order of execution."""
    return [spec.name for spec in expand(parse_plan({"name": "x", "trials": list(trials)}), "run")]


def test_a_point_is_named_by_its_fields_and_values() -> None:
    """A reader of the report has not got the plan at hand."""
    matrix = {"target.batch_size": [10], "phases[0].load[0].rate_per_s": [0.5]}
    assert names(trial("dynamodb", matrix=matrix)) == ["dynamodb.batch_size-10.rate_per_s-0.5"]


def test_repeats_are_numbered_from_one() -> None:
    """Only where there are any."""
    assert names(trial(repeats=2), trial("etcd")) == ["s3.r1", "etcd", "s3.r2"]


def test_paths_that_end_alike_are_told_apart() -> None:
    """Names take as many parts of the path as that needs."""
    phases = [PHASES[0], {**PHASES[0], "name": "b"}]
    matrix = {"phases[0].settle_s": [1], "phases[1].settle_s": [2]}
    assert names(trial(phases=phases, matrix=matrix)) == ["s3.phases_0_settle_s-1.phases_1_settle_s-2"]


def test_what_does_not_fit_into_a_name_is_left_out_of_it_or_numbered() -> None:
    """Texts with other characters, objects, and values that would read alike."""
    filters = [None, {"eventName": ["INSERT"]}, {"eventName": ["MODIFY"]}]
    found = names(trial("dynamodb", matrix={"target.filter": filters}))
    assert found == ["dynamodb.filter-none", "dynamodb.filter-2", "dynamodb.filter-3"]
    endpoints = ["http://a.example:1", "http://a.example/1"]
    assert names(trial(matrix={"target.endpoint": endpoints})) == ["s3.endpoint-1", "s3.endpoint-2"]
    assert names(trial(matrix={"arrivals": ["poisson"]})) == ["s3.arrivals-poisson"]


def test_stores_are_not_named_twice() -> None:
    """No number stands where the matrix's own value says more."""
    targets = [{"store": "dynamodb"}, {"store": "dynamodb", "batch_size": 5}, {"store": "s3"}]
    assert names(trial(matrix={"target": targets})) == ["dynamodb.target-1", "dynamodb.target-2", "s3.target-3"]
    assert names(trial(matrix={"target": targets[1:]})) == ["dynamodb", "s3"]
    assert names(trial(name="a", matrix={"target.store": ["s3", "etcd"]})) == ["a.store-s3", "a.store-etcd"]


def test_names_fit_however_long_the_fields_and_the_trial_s_own_name() -> None:
    """First without fields, then by number; never cut so that two become the same."""
    long = {"target.parallelization_factor": [1, 10], "target.batching_window_s": [5], "target.batch_size": [1_000]}
    assert names(trial("dynamodb", matrix=long)) == ["dynamodb.1.5.1000", "dynamodb.10.5.1000"]
    found = names(trial(name="n" * 60, matrix={"writers": [1, 2]}, repeats=2))
    assert found == [f"{'n' * 50}.p1.r1", f"{'n' * 50}.p2.r1", f"{'n' * 50}.p1.r2", f"{'n' * 50}.p2.r2"]
    assert names(trial(name="n" * 60, repeats=2)) == [f"{'n' * 57}.r1", f"{'n' * 57}.r2"]


def test_names_are_unique_whatever_else_is_called_so() -> None:
    """A name that a user gave is never taken away."""
    matrix = {"writers": [1, 2]}
    found = names(trial(name="s3.writers-1"), trial(matrix=matrix), trial(name="s3.writers-2.r1"), trial(matrix=matrix))
    assert found[:1] + found[3:4] == ["s3.writers-1", "s3.writers-2.r1"]
    assert found[1:3] == ["s3.writers-1-2", "s3.writers-2"]
    assert len(set(found)) == len(found) == 6
    assert names(trial(name="a", repeats=2), trial(name="a.r1")) == ["a.r1-2", "a.r1", "a.r2"]


@pytest.mark.parametrize("matrix", [{"writers": [1, 2, 3]}, {"record.value_bytes": [100, 200], "writers": [1, 2]}])
def test_repeats_of_one_point_are_one_group(matrix: dict[str, list[int]]) -> None:
    """It is what the report takes together."""
    specs = expand(parse_plan({"name": "x", "trials": [trial(matrix=matrix, repeats=2)]}), "run")
    groups = {group: [spec for spec in specs if spec.group == group] for group in {spec.group for spec in specs}}
    for group, members in groups.items():
        assert [spec.repeat for spec in members] == [0, 1]
        assert [spec.name for spec in members] == [f"{group}.r1", f"{group}.r2"]
        assert members[0].point == members[1].point
    assert len(groups) == len(specs) / 2


def test_trials_are_named_after_their_stores_and_made_unique() -> None:
    """A report with two lines called s3 compares nothing."""
    plan = parse_plan({"name": "x", "trials": [trial("s3"), trial("etcd"), trial("s3"), trial("s3")]})
    assert [spec.name for spec in expand(plan, "run")] == ["s3", "etcd", "s3-2", "s3-3"]


def test_names_that_users_gave_are_never_taken_away() -> None:
    """A made-up name gives way even to a later one of theirs."""
    plan = parse_plan(
        {"name": "x", "trials": [trial("s3"), trial("s3"), trial("s3", name="s3-2"), trial("etcd", name="s3")]}
    )
    assert [spec.name for spec in expand(plan, "run")] == ["s3-3", "s3-4", "s3-2", "s3"]


def test_each_trial_has_a_namespace_and_an_estimate_of_its_own() -> None:
    """Keys of one trial must never be taken for another's."""
    plan = parse_plan({"name": "x", "trials": [trial("s3"), trial("dynamodb")]})
    first, second = expand(plan, "run-1")
    assert (first.tag, second.tag) == (trial_tag("run-1", 0), trial_tag("run-1", 1))
    assert (first.index, second.index, first.run_id) == (0, 1, "run-1")
    assert first.estimate_usd + second.estimate_usd == sum(estimate(trial).total_usd for trial in plan.trials)
    assert check_budget(plan) == sum(budgeted(trial).total_usd for trial in plan.trials)


def test_repeats_go_round_by_round() -> None:
    """A drift over the hours of a run then concerns all trials equally."""
    plan = parse_plan({"name": "x", "trials": [trial("s3", repeats=3), trial("etcd", repeats=2), trial("dynamodb")]})
    specs = expand(plan, "run")
    assert [(spec.group, spec.repeat) for spec in specs] == [
        *(("s3", 0), ("etcd", 0), ("dynamodb", 0)),
        *(("s3", 1), ("etcd", 1)),
        ("s3", 2),
    ]
    assert [spec.index for spec in specs] == list(range(6))
    assert plan.size == 6


def test_a_round_s_trials_are_offered_the_same_load_and_the_next_round_s_another() -> None:
    """Points are compared under one load; repeats of one and the same load would hide what loads differ by."""
    specs = expand(parse_plan({"name": "x", "trials": [trial("s3", matrix={"writers": [1, 2]}, repeats=2)]}), "run")
    assert [spec.plan.seed for spec in specs] == [7, 7, 8, 8]
    (_, last) = expand(parse_plan({"name": "x", "trials": [trial("s3", seed=2**63 - 1, repeats=2)]}), "run")
    assert last.plan.seed == 0


def test_random_order_shuffles_within_each_round() -> None:
    """A plan has one order each time; another seed gives another."""

    def order(seed: int) -> list[tuple[int, str]]:
        matrix = {"record.value_bytes": list(range(100, 112))}
        trials = [trial("s3", seed=seed, matrix=matrix, repeats=2)]
        plan = parse_plan({"name": "x", "trials": trials, "order": "random"})
        return [(spec.repeat, spec.group) for spec in expand(plan, "run")]

    first, second = order(1)[:12], order(1)[12:]
    assert [repeat for repeat, _ in order(1)] == [0] * 12 + [1] * 12
    assert sorted(group for _, group in first) == sorted(group for _, group in second)
    listed = [f"s3.value_bytes-{size}" for size in range(100, 112)]
    # By chance each of these would fail once in 12! = 479 million seeds.
    assert [group for _, group in first] != listed
    assert [group for _, group in first] != [group for _, group in second]
    assert order(1) == order(1) != order(2)


def test_every_trial_knows_what_the_plan_calls_it() -> None:
    """The report titles a matrix with it; without a name it is the store's, unless that varies."""
    varied = {"matrix": {"writers": [1, 2]}, "repeats": 2}
    stores = {"matrix": {"target": [{"store": "s3"}, {"store": "etcd"}]}}
    of_s3 = [trial("s3", **varied), trial("s3", name="small", **varied)]
    trials = [*of_s3, trial("s3", **stores), trial("s3", name="both", **stores)]
    specs = expand(parse_plan({"name": "p", "trials": trials}), "run")
    assert list(dict.fromkeys(spec.base for spec in specs)) == ["s3", "small", "", "both"]


def test_groups_are_listed_as_in_the_plan_whatever_the_order_of_execution() -> None:
    """The first of them is what the others are compared with."""
    matrix = {"writers": [1, 2, 3, 4, 5, 6]}
    plan = parse_plan({"name": "x", "trials": [trial("s3", matrix=matrix)], "order": "random"})
    assert group_names(plan) == tuple(f"s3.writers-{n}" for n in range(1, 7))
