"""The parts: what is tried, by which parameters, and what that may cost."""

from __future__ import annotations

import pytest
from tests.samples.templates import ROOT, load_template

from stepbench.contracts.target import target_models
from stepbench.errors import PlanError
from stepbench_tools.rehearsal.judges import FIRST, STOPPING
from stepbench_tools.rehearsal.rehearse import OVERHEAD_USD, budget_hours, find_plans, read_parts

LOCAL_ONLY = {"reference"}
"""It calibrates, and has no server on AWS."""
PARTS = read_parts()
ALL = {name: value for part in PARTS.values() for name, value in part.get("parameters", {}).items()}
EVERY_STORE = {name: value for name, value in ALL.items() if not name.endswith(("Endpoint", "Endpoints"))} | {
    "AuroraPostgresql": "provisioned",
    "ElastiCache": "serverless",
}


def test_every_store_that_a_stack_can_have_is_rehearsed() -> None:
    """A new store is missing here until it has a part."""
    plans = find_plans(EVERY_STORE).values()
    stores = {trial.target.store for plan in plans for trial in plan.trials}
    assert stores == target_models().keys() - LOCAL_ONLY | {"files"}


def test_each_part_is_asked_for_by_what_the_template_has() -> None:
    """By a value that it allows."""
    parameters = load_template(ROOT / "template.yaml")["Parameters"]
    for part in PARTS.values():
        for name, value in part.get("parameters", {}).items():
            assert value in {"ANY", *map(str, parameters[name].get("AllowedValues", [""]))}


def test_triggers_are_tried_where_a_store_has_one() -> None:
    """Beside its operations."""
    triggers = {store: model.trigger is not None for store, model in target_models().items()}
    for name in ("aurora", "etcd-nodes", "elasticache", "cassandra-node", "dsql"):
        trials = find_plans(EVERY_STORE)[name].trials
        wanted = {"trigger", "operations"} if triggers[trials[0].target.store] else {"operations"}
        assert {trial.experiment for trial in trials} == wanted


def test_without_parameters_s3_and_dynamodb_are_tried_and_the_last_run_is_stopped() -> None:
    """An account with a small quota has no sandbox to reserve, nor a dozen for writers; an emulator no machine."""
    assert [*find_plans({"ClockCheck": "off"})] == [FIRST, STOPPING]
    assert [*find_plans({"ClockCheck": "on", "Emulator": "X"})] == [FIRST, "clock-check", STOPPING]
    assert [*find_plans({"ClockCheck": "on"})][-1] == STOPPING


def test_the_time_is_what_the_budget_pays_for_with_an_hour_of_deletion() -> None:
    """Etcd and its network are $0.396 an hour; $0.05 and $1.188 are three hours, one of them the deletion."""
    hours, most_usd = budget_hours({}, {"EtcdNodes": "on"}, OVERHEAD_USD + 3 * 0.3961507)
    assert hours == pytest.approx(2, abs=1e-4)
    assert most_usd == pytest.approx(OVERHEAD_USD + 3 * 0.3961507)
    assert budget_hours({}, {}, 0.05) == (3, 0.05)  # requests are billed, no hours


def test_a_budget_that_does_not_pay_for_an_hour_is_refused() -> None:
    """Before anything is made, with what it takes."""
    with pytest.raises(PlanError, match=r"BUDGET: is below the \$0\.84 .*Give at least 0.85"):
        budget_hours({}, {"EtcdNodes": "on"}, 0.8)


def test_the_published_budget_pays_for_all_stores() -> None:
    """`make rehearse BUDGET=5` with everything on has more than an hour."""
    hours, most_usd = budget_hours(find_plans(EVERY_STORE), EVERY_STORE, 5.0)
    assert hours > 1.5
    assert most_usd <= 5
