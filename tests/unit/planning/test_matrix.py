from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from stepbench.contracts.plan import Plan
from stepbench.contracts.target import DynamoDbTarget, EtcdTarget, S3Target
from stepbench.errors import PlanError
from stepbench.planning import check_budget, expand, parse_plan

PHASES = [{"name": "a", "load": [{"rate_per_s": 10, "count": 20}]}]


def plan(matrix: object, store: str = "dynamodb", **trial: object) -> dict[str, Any]:
    """Return a plan of one trial with this matrix."""
    return {"name": "x", "trials": [{"target": {"store": store}, "phases": PHASES, "matrix": matrix, **trial}]}


def points(document: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the points of the plan's trials, in the order of execution."""
    return [spec.point for spec in expand(parse_plan(document), "run")]


def test_a_matrix_expands_into_all_combinations() -> None:
    """The last path varies fastest, as nested loops would."""
    found = points(plan({"target.batch_size": [1, 10], "record.value_bytes": [100, 1_000]}))
    assert [tuple(point.values()) for point in found] == [(1, 100), (1, 1_000), (10, 100), (10, 1_000)]
    assert list(found[0]) == ["target.batch_size", "record.value_bytes"]


def test_values_go_where_their_paths_say() -> None:
    """Lists are counted from 0; what is not named stays."""
    matrix = {"phases[0].load[0].rate_per_s": [5, 7.5], "writers": [3]}
    first, second = (spec.offered for spec in expand(parse_plan(plan(matrix)), "run"))
    assert [each.phases[0].load[0].rate_per_s for each in (first, second)] == [5, 7.5]
    assert (first.writers, first.phases[0].load[0].count) == (3, 20)
    assert (first.matrix, first.repeats) == (None, 1)


def test_a_matrix_may_vary_the_store() -> None:
    """The fields that the trial's own store has by default must not stand in the other's way."""
    specs = expand(parse_plan(plan({"target.store": ["s3", "dynamodb", "etcd"]})), "run")
    assert [type(spec.plan.target) for spec in specs] == [S3Target, DynamoDbTarget, EtcdTarget]
    assert [spec.name for spec in specs] == ["s3", "dynamodb", "etcd"]


def test_whole_parts_can_be_values() -> None:
    """Capacities differ in more than one field."""
    capacities = [{"mode": "on_demand"}, {"mode": "provisioned", "write_units": 100}]
    specs = expand(parse_plan(plan({"target.capacity": capacities})), "run")
    assert [spec.plan.target.capacity.mode for spec in specs] == ["on_demand", "provisioned"]  # type: ignore[union-attr]


def test_a_field_below_one_that_the_plan_leaves_out_can_be_varied() -> None:
    """Its siblings, such as the capacity's mode, are as they would be anyway."""
    specs = expand(parse_plan(plan({"target.capacity.warm_write_units": [None, 4_000]})), "run")
    assert [spec.plan.target.capacity.warm_write_units for spec in specs] == [None, 4_000]  # type: ignore[union-attr]


def test_a_stored_plan_expands_as_the_one_that_was_written() -> None:
    """The state machine is handed the plan with all defaults filled in; its trials must be those that were shown."""
    plan_ = parse_plan(plan({"target.store": ["s3", "etcd"], "writers": [1, 2]}, repeats=2))
    assert expand(Plan.model_validate_json(plan_.model_dump_json()), "run") == expand(plan_, "run")


def test_the_budget_is_that_of_all_trials() -> None:
    """A matrix of a cheap trial can be dear."""
    document = plan({"phases[0].load[0].count": [20, 1_000_000]}, "s3", repeats=3)
    with pytest.raises(PlanError) as refused:
        check_budget(parse_plan(document))
    (problem,) = refused.value.problems
    assert "S3 PUT requests in s3.count-1000000.r1 of trials[0], $5.00" in problem.message
    assert float(problem.remedy.split()[5].rstrip(",")) > 15


class Bad(NamedTuple):
    """A matrix that is refused, and words of what its author is told."""

    matrix: Any
    path: str
    value: str
    message: str
    remedy: str


SIXTY = list(range(1, 61))
BAD = {
    "no object": Bad(7, "", "7", "object", "an object"),
    "empty": Bad({}, "", "{}", "is empty", "an object"),
    "empty list": Bad({"writers": []}, ".writers", "[]", "is empty", "1 to 100 entries"),
    "no list": Bad({"writers": 5}, ".writers", "5", "array", "a list"),
    "unknown field": Bad({"writes": [1]}, ".writes", "[1]", "writes is no field of a trial", '"writers"?'),
    "unknown inner field": Bad(
        {"target.batchsize": [1]}, ".target.batchsize", "[1]", "batchsize is no field of target", '"batch_size"?'
    ),
    "no such entry": Bad(
        {"phases[1].name": ["b"]}, ".phases[1].name", '["b"]', "the last of phases is phases[0]", "begins at 0"
    ),
    "entry of an empty list": Bad(
        {"phases[0].windows[0].to_s": [1]}, ".phases[0].windows[0].to_s", "[1]", "windows is empty", "begins at 0"
    ),
    "name for a number": Bad({"phases.first": [1]}, ".phases.first", "[1]", "phases[0]", "begins at 0"),
    "dots for brackets": Bad({"phases.0.name": ["b"]}, ".phases.0.name", '["b"]', "is no path", "phases[1]"),
    "not a path": Bad({"a..b": [1]}, ".a..b", "[1]", "is no path", "target.batch_size"),
    "below nothing": Bad({"target.filter.x": [1]}, ".target.filter.x", "[1]", "is null", "target.filter as a whole"),
    "below a number": Bad({"writers.x": [1]}, ".writers.x", "[1]", "writers is 1", "Vary writers as a whole"),
    "repeats": Bad({"repeats": [1, 2]}, ".repeats", "[1, 2]", "cannot be varied", "such as"),
    "all phases": Bad({"phases": [[1], [2]]}, ".phases", "[[1], [2]]", "cannot be varied", "phases[0]"),
    "twice the same": Bad({"writers": [1, 2, 1]}, ".writers[2]", "1", "listed twice", "Remove one"),
    "one in the other": Bad(
        {"record": [{}], "record.key_bytes": [59]}, ".record.key_bytes", "[59]", "lies in record", "Keep one"
    ),
    "wrong type": Bad({"writers": [1, "2"]}, ".writers[1]", '"2"', "integer", "a whole number"),
    "out of bounds": Bad({"target.batch_size": [1, 0]}, ".target.batch_size[1]", "0", "greater", "at least 1"),
    "missing in a part": Bad(
        {"target.capacity": [{"mode": "provisioned"}]},
        ".target.capacity[0].write_units",
        "nothing",
        "is missing",
        'Add "write_units"',
    ),
    "unknown store": Bad({"target.store": ["dynamo"]}, ".target.store[0]", '"dynamo"', "no known", '"dynamodb"?'),
    "a rule, by the value": Bad(
        {"writers": [1, 4], "max_concurrency": [2, 4]},
        ".max_concurrency[0]",
        "2",
        "is below writers (4), and every writer has to run at once, in the combination writers=4, max_concurrency=2",
        "Raise it to 4",
    ),
    "a rule, by the combination": Bad(
        {"writers": [1, 2], "record.operation": ["put", "update"]},
        "",
        'writers=1, record.operation="update"',
        "makes a trial whose record.distinct_keys (here null) is missing",
        "how many keys",
    ),
    "too many combinations": Bad({"writers": SIXTY, "seed": SIXTY}, "", "[1, 2", "3,600 of 3,600", "Shorten"),
    "unthinkably many": Bad(
        {path: list(range(100)) for path in ("a", "b", "c", "d", "e", "f")}, "", "[0, 1", "1,000,000,000,000", "Shorten"
    ),
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD.keys())
def test_a_bad_matrix_is_refused_once_with_path_value_and_remedy(bad: Bad) -> None:
    """One fault that lies in many combinations is one problem."""
    with pytest.raises(PlanError) as refused:
        parse_plan(plan(bad.matrix))
    (problem,) = refused.value.problems
    assert problem.path == f"trials[0].matrix{bad.path}"
    assert bad.value in problem.value
    assert bad.message in problem.message
    assert bad.remedy in problem.remedy


def test_all_bad_combinations_of_all_trials_are_told() -> None:
    """One round of mending; each with the number of its own trial."""
    good, bad = (plan({"writers": [writers]}, store)["trials"][0] for writers, store in ((1, "s3"), (0, "etcd")))
    other = plan({"target.batch_size": [0, 20_000]})["trials"][0]
    with pytest.raises(PlanError) as refused:
        parse_plan({"name": "x", "trials": [good, bad, other]})
    assert [problem.path for problem in refused.value.problems] == [
        "trials[1].matrix.writers[0]",
        "trials[2].matrix.target.batch_size[0]",
        "trials[2].matrix.target.batch_size[1]",
    ]


def test_a_matrix_counts_towards_what_one_state_machine_can_hand_on() -> None:
    """Eighty trials of fifty phases are too many, however they were written."""
    phases = [{**PHASES[0], "name": f"p{index}"} for index in range(50)]
    with pytest.raises(PlanError, match="have 4,000 phases together"):
        parse_plan(plan({"seed": list(range(80))}, phases=phases))


def test_clients_connection_reuse_and_tls_can_be_varied() -> None:
    """Seed 2: each row of its tables is a trial."""
    phases = [{"name": "a", "closed": {"clients": 1, "duration_s": 1}}]
    matrix = {"phases[0].closed.clients": [1, 10, 100], "workload.reuse": [True, False], "target.tls": [False, True]}
    workload = {"mix": {"read": 1}}
    trial = plan(matrix, "postgresql", experiment="operations", phases=phases, workload=workload)
    specs = expand(parse_plan(trial), "run")
    closed = [spec.plan.phases[0].closed for spec in specs]
    assert [each.clients for each in closed if each is not None] == [1] * 4 + [10] * 4 + [100] * 4
    assert [spec.plan.workload.reuse for spec in specs if spec.plan.workload][:4] == [True, True, False, False]
    assert [spec.plan.target.model_dump()["tls"] for spec in specs][:2] == [False, True]
    assert specs[0].name == "postgresql.clients-1.reuse-true.tls-false"


def test_operations_of_a_repeat_are_other_ones_on_the_same_mix() -> None:
    """Repeats that offer the same choices would share their luck; points of a round are to have the same."""
    workload = {"mix": {"read": 1}, "seed": 3}
    phases = [{"name": "a", "closed": {"clients": 2, "duration_s": 1}}]
    matrix = {"workload.reuse": [True, False]}
    trial = plan(matrix, "redis", experiment="operations", phases=phases, workload=workload, repeats=2)
    specs = expand(parse_plan(trial), "run")
    assert [spec.plan.workload.seed for spec in specs if spec.plan.workload] == [3, 3, 4, 4]
