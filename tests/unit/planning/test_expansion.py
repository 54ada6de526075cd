from __future__ import annotations

from typing import Any

from stepbench.contracts.identity import trial_tag
from stepbench.planning import check_budget, expand, group_names, parse_plan


def trial(store: str, **fields: object) -> dict[str, Any]:
    """A small trial."""
    return {"target": {"store": store}, "phases": [{"name": "a", "load": [{"rate_per_s": 1, "count": 2}]}], **fields}


def test_trials_are_named_after_their_stores_and_made_unique() -> None:
    """A report with two lines called s3 compares nothing."""
    plan = parse_plan({"name": "x", "trials": [trial("s3"), trial("etcd"), trial("s3"), trial("s3")]})
    assert [spec.name for spec in expand(plan, "run")] == ["s3", "etcd", "s3-2", "s3-3"]


def test_names_that_users_gave_are_never_taken_away() -> None:
    """Also where a made-up name would have collided with a later one of theirs."""
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
    assert first.estimate_usd + second.estimate_usd == check_budget(plan)


def test_repeats_go_round_by_round() -> None:
    """What drifts over the hours of a run then drifts for all trials alike."""
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
    """The same plan in the same order each time; another seed, another order."""

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
