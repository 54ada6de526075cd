from __future__ import annotations

from typing import Any

import pytest

from stepbench.contracts.capacity import AutoscaledCapacity, OnDemandCapacity, ProvisionedCapacity
from stepbench.contracts.cost import Cost
from stepbench.contracts.plan import TrialPlan
from stepbench.costs.actual import LATER, TASK_HEARTBEATS, Done, FunctionUsage, actual_cost, run_items
from stepbench.costs.prices import Offered, Stretch
from stepbench.costs.standing import Deployment

OPTIONS = {"RecordsRetentionDays": "30", "LogRetentionDays": "14", "ResultsRetentionDays": "365"}


def plan(store: str = "s3", **fields: Any) -> TrialPlan:  # noqa: ANN401 -- JSON
    """Return a trial of 1,000 events in 100 s."""
    phases = [{"name": "a", "load": [{"rate_per_s": 10, "count": 1_000}]}]
    return TrialPlan.model_validate(
        {"target": {"store": store, **fields.pop("target", {})}, "phases": phases, **fields}
    )


def done(**fields: Any) -> Done:  # noqa: ANN401 -- its fields
    """Return what that trial did, with three canaries, an hour long."""
    functions = (
        FunctionUsage("ReceiveEvents", 1_003, 10),
        FunctionUsage("RunWriter", 1, 200),
        FunctionUsage("PrepareTarget", 1, 2),
        FunctionUsage("PlanPhase", 1, 3),
    )
    default: dict[str, Any] = {"offered": Offered(1_000, 3, 1), "delivered": 1_003, "batches": 1_003, "objects": 20}
    return Done(**{**default, "functions": functions, "transitions": 40, **fields})


def billed(cost: Cost, item: str) -> list[float]:
    """Return quantity and dollars of an item."""
    (found,) = (each for each in cost.items if each.item == item)
    return [found.quantity, found.usd]


def test_each_item_is_a_quantity_at_a_price() -> None:
    """1,003 puts at $5 a million; 10, 200 and 5 GB-seconds; 40 transitions at $25 a million."""
    cost = actual_cost(plan(), done(), Deployment(options=OPTIONS), 1)
    assert billed(cost, "S3 PUT requests") == pytest.approx([1_003, 0.005015])
    assert billed(cost, "Lambda duration (x86), by the trigger") == pytest.approx([10, 10 * 0.0000166667])
    assert billed(cost, "Lambda duration (x86), writers")[0] == 200
    assert billed(cost, "Lambda duration (x86), other functions")[0] == 5
    assert billed(cost, "Lambda requests, other functions")[0] == 2
    assert billed(cost, "Step Functions state transitions") == pytest.approx([40, 0.001])
    # An item of 300 and 36 bytes, so 1 KB, for each of 1,003; 100 heartbeats, 10 pointers, 100 flags and the like.
    assert billed(cost, "Results table writes")[0] == pytest.approx(1_003 + 100 + 10 + 100)
    assert billed(cost, "Results table storage")[0] == pytest.approx(1_003 * 336 / 1e9 * 30 * 24 / 730)
    assert billed(cost, "CloudWatch Logs ingestion")[0] == pytest.approx(1_006 * 400 / 1e9)
    assert cost.actual == pytest.approx(sum(item.quantity * item.unit_price_usd for item in cost.items))
    assert cost.of("store", "trigger") == pytest.approx(0.005015 + 10 * 0.0000166667 + 1_003 * 2e-7)
    assert (cost.estimate, cost.emulated) == (1, False)


@pytest.mark.parametrize(
    ("of_stack", "of_copy", "item"),
    [(False, True, "Lambda duration (arm64), by the trigger"), (True, False, "Lambda duration (x86), by the trigger")],
)
def test_a_measured_function_is_billed_at_the_price_of_its_own_processor(
    *, of_stack: bool, of_copy: bool, item: str
) -> None:
    """A change of processor, which is a fifth of the price, would not show in what it costs."""
    used = (FunctionUsage("MeasuredFunction", 1_000, 10, arm64=of_copy), FunctionUsage("RunWriter", 1, 200))
    cost = actual_cost(plan(), done(functions=used), Deployment(options=OPTIONS, arm64=of_stack), 1)
    assert billed(cost, item)[0] == 10
    writers = "Lambda duration (arm64), writers" if of_stack else "Lambda duration (x86), writers"
    assert billed(cost, writers)[0] == 200


def test_rows_of_tasks_are_writes_too() -> None:
    """As many units as they take, beside what every trial writes; their heartbeats are named as left out."""
    plain, dags = (actual_cost(plan(), done(dag_writes=units), Deployment(options=OPTIONS), 1) for units in (0, 70))
    assert billed(dags, "Results table writes")[0] - billed(plain, "Results table writes")[0] == 70
    assert set(dags.left_out) - set(plain.left_out) == {TASK_HEARTBEATS}


def test_arm64_has_a_price_of_its_own() -> None:
    """A fifth less."""
    cost = actual_cost(plan(), done(), Deployment(arm64=True, options=OPTIONS), 1)
    assert billed(cost, "Lambda duration (arm64), writers")[1] == pytest.approx(200 * 0.0000133334)


def test_capacity_is_billed_for_the_hours_that_the_trial_held_the_table() -> None:
    """100 write units for an hour, and 5 read units."""
    table = plan("dynamodb", target={"capacity": {"mode": "provisioned", "write_units": 100}})
    cost = actual_cost(table, done(), Deployment(options=OPTIONS), 1)
    assert billed(cost, "DynamoDB provisioned write capacity") == pytest.approx([100, 0.065])
    assert not any(item.item == "DynamoDB on-demand writes" for item in cost.items)


def held(*stretches: Stretch) -> Cost:
    """Return the cost of a table that had one capacity after the other."""
    offered = Offered(sum(each.number for each in stretches), 0, sum(each.hours for each in stretches), stretches)
    return actual_cost(plan("dynamodb"), done(offered=offered), Deployment(options=OPTIONS), 9)


def test_a_table_that_is_scaled_is_billed_by_the_capacity_that_it_had_when() -> None:
    """600,000 writes on demand; 4,000 units for the other half of an hour, whose writes cost nothing more."""
    cost = held(
        Stretch(OnDemandCapacity(), 600_000, 0.5), Stretch(ProvisionedCapacity(write_units=4_000), 600_000, 0.5)
    )
    assert billed(cost, "DynamoDB on-demand writes") == pytest.approx([600_000, 0.375])
    assert billed(cost, "DynamoDB provisioned write capacity") == pytest.approx([2_000, 1.3])
    assert "store" not in cost.incomplete


def test_an_autoscaled_table_is_billed_at_its_least_and_the_rest_is_named() -> None:
    """Its most would be 2,000 times as much for a table that has never been scaled up: $3.25 for $0.0016."""
    capacity = AutoscaledCapacity(mode="autoscaled", min_write_units=5, max_write_units=10_000)
    cost = held(Stretch(capacity, 18_000, 0.5))
    assert billed(cost, "DynamoDB provisioned write capacity") == pytest.approx([2.5, 0.001625])
    assert "DynamoDB's write capacity above the least of its autoscaling" in cost.left_out
    assert "store" in cost.incomplete


def test_a_charge_for_warm_throughput_is_named() -> None:
    """Nobody has confirmed its price; 4,000 write units a second are a new table's own."""
    cost = held(Stretch(OnDemandCapacity(warm_write_units=100_000), 10, 0.5))
    assert "DynamoDB's charge for 96,000 write units of warm throughput above a table's own" in cost.left_out
    assert "store" in cost.incomplete
    assert "store" not in held(Stretch(OnDemandCapacity(warm_write_units=4_000), 10, 0.5)).incomplete


def test_a_budget_is_charged_the_estimate_where_something_of_the_stack_s_is_not_known() -> None:
    """Else what is not known would be given back to it: the lines of the last stages and others' servers apart."""
    deployment = Deployment(options={**OPTIONS, "AuroraPostgresql": "serverless"})
    known = actual_cost(plan(), done(), deployment, 1)
    others = actual_cost(plan("postgresql"), done(own_server=True), deployment, 1)
    assert (known.charged, others.charged) == (known.actual, others.actual)
    assert actual_cost(plan(), done(functions=None, transitions=None), deployment, 1).charged == 1
    part = actual_cost(plan("postgresql"), done(), deployment, 0.01)
    assert (part.charged, "store" in part.incomplete) == (part.actual, True)


def test_keys_that_were_written_before_the_load_are_paid_for() -> None:
    """100,000 puts at $5 per million."""
    cost = actual_cost(plan(), done(offered=Offered(101_000, 0, 1)), Deployment(options=OPTIONS), 1)
    assert billed(cost, "S3 PUT requests") == pytest.approx([101_000, 0.505])


def test_a_host_of_the_stack_is_billed_while_the_trial_holds_its_target() -> None:
    """An hour of an m6g.xlarge, its volume and its address, as a part of the load."""
    options = {**OPTIONS, "LoadHost": "on", "LoadHostInstanceType": "m6g.xlarge"}
    cost = actual_cost(plan(load_from="host"), done(), Deployment(options=options), 1)
    assert billed(cost, "m6g.xlarge (EC2)") == pytest.approx([1, 0.154])
    assert {item.part for item in cost.items if "EC2" in item.item or "EBS" in item.item} == {"load"}
    own = actual_cost(plan(load_from="host"), done(), Deployment(options={**OPTIONS, "LoadHost": "own"}), 1)
    assert "the hours of the load host, which is not the stack's own" in own.left_out
    assert "load" in own.incomplete


def test_what_scales_by_itself_is_billed_at_its_least_and_the_rest_is_named() -> None:
    """Nobody reads to how many ACU Aurora went."""
    options = {**OPTIONS, "AuroraPostgresql": "serverless"}
    cost = actual_cost(plan("postgresql"), done(), Deployment(options=options), 1)
    assert billed(cost, "Aurora Serverless v2 capacity") == pytest.approx([0.5, 0.06])
    assert "Aurora's capacity above the least" in cost.left_out
    assert "store" in cost.incomplete


def test_an_instance_without_a_price_makes_its_part_incomplete() -> None:
    """And is named: half a store's cost would pass for all of it."""
    options = {**OPTIONS, "EtcdNodes": "on", "EtcdInstanceType": "x99.mega"}
    cost = actual_cost(plan("etcd"), done(), Deployment(options=options), 1)
    assert "x99.mega (EC2): no price is known" in cost.left_out
    assert "store" in cost.incomplete


def test_a_server_that_the_plan_names_is_not_the_stack_s() -> None:
    """Its hours are left out, though the stack has one, too; so is what it bills for requests: it may be no Aurora."""
    options = {**OPTIONS, "AuroraPostgresql": "provisioned", "AuroraInstanceClass": "db.r6g.large"}
    cost = actual_cost(plan("postgresql"), done(own_server=True), Deployment(options=options), 1)
    assert not any(item.part == "store" for item in cost.items)
    assert "the bill of postgresql's server, which is not the stack's own" in cost.left_out


def test_dsql_bills_nothing_by_the_hour() -> None:
    """So nothing of it is left out, wherever its clusters are."""
    workload = {"mix": {"insert": 1}, "records": 0}
    cost = actual_cost(plan("dsql", experiment="operations", workload=workload), done(), Deployment(options=OPTIONS), 1)
    assert "store" not in cost.incomplete
    assert LATER in cost.left_out


def test_another_region_s_prices_are_us_east_1_s_and_said_to_be() -> None:
    """The table has no others."""
    cost = actual_cost(plan(), done(), Deployment(region="ap-northeast-1", options=OPTIONS), 1)
    assert cost.prices.startswith("us-east-1, which stand for ap-northeast-1")
    assert all("us-east-1's price" in item.note for item in cost.items)


def test_a_run_has_items_of_its_own() -> None:
    """10 transitions, 2 GB for a year at $0.023 a month, and a function that ends after its trial was analysed."""
    items = {
        item.item: item.quantity
        for item in run_items(10, 2 * 10**9, 7, (FunctionUsage("AnalyseTrial", 1, 9),), Deployment(options=OPTIONS))
    }
    assert items == {
        "Lambda requests, other functions, run itself": 1,
        "Lambda duration (x86), other functions, run itself": 9,
        "Step Functions state transitions, run itself": 10,
        "Results bucket PUT requests, run itself": 7,
        "Results bucket storage, run itself": pytest.approx(2 * 365 * 24 / 730),
    }


def test_old_summaries_have_a_cost_without_items() -> None:
    """They are still read."""
    old = Cost.model_validate({"estimate": 0.5, "actual": 0.4})
    assert (old.items, old.left_out, old.of("store")) == ((), (), 0)
