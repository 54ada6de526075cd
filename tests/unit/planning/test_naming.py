from __future__ import annotations

from typing import Any

import pytest

from stepbench.planning import expand, parse_plan

PHASES = [{"name": "a", "load": [{"rate_per_s": 10, "count": 20}]}]


def trial(store: str = "s3", **fields: object) -> dict[str, Any]:
    """A small trial."""
    return {"target": {"store": store}, "phases": PHASES, **fields}


def names(*trials: dict[str, Any]) -> list[str]:
    """Of the plan of these trials, in the order of execution."""
    return [spec.name for spec in expand(parse_plan({"name": "x", "trials": list(trials)}), "run")]


def test_a_point_is_named_by_its_fields_and_values() -> None:
    """A reader of the report has not got the plan at hand."""
    matrix = {"target.batch_size": [10], "phases[0].load[0].rate_per_s": [0.5]}
    assert names(trial("dynamodb", matrix=matrix)) == ["dynamodb.batch_size-10.rate_per_s-0.5"]


def test_repeats_are_numbered_from_one() -> None:
    """Only where there are any."""
    assert names(trial(repeats=2), trial("etcd")) == ["s3.r1", "etcd", "s3.r2"]


def test_paths_that_end_alike_are_told_apart() -> None:
    """By as many words more as that takes."""
    phases = [PHASES[0], {**PHASES[0], "name": "b"}]
    matrix = {"phases[0].settle_s": [1], "phases[1].settle_s": [2]}
    assert names(trial(phases=phases, matrix=matrix)) == ["s3.0_settle_s-1.1_settle_s-2"]


def test_what_does_not_fit_into_a_name_is_left_out_of_it_or_numbered() -> None:
    """Texts with other characters, objects, and values that would read alike."""
    filters = [None, {"eventName": ["INSERT"]}, {"eventName": ["MODIFY"]}]
    found = names(trial("dynamodb", matrix={"target.filter": filters}))
    assert found == ["dynamodb.filter-null", "dynamodb.filter-2", "dynamodb.filter-3"]
    endpoints = ["http://a.example:1", "http://a.example/1"]
    assert names(trial(matrix={"target.endpoint": endpoints})) == ["s3.endpoint-1", "s3.endpoint-2"]
    assert names(trial(matrix={"arrivals": ["poisson"]})) == ["s3.arrivals-poisson"]


def test_stores_are_not_named_twice() -> None:
    """And not by a number where the matrix's own value says more."""
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
    """And a name that a user gave is never taken away."""
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
