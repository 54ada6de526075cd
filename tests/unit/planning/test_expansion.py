from __future__ import annotations

from typing import Any

from stepbench.contracts.identity import trial_tag
from stepbench.planning import check_budget, expand, parse_plan


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
