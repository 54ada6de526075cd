"""What executions of a DAG cost, multiplied out by hand."""

from __future__ import annotations

import pytest
from pydantic import TypeAdapter
from tests.samples.dags import DIAMOND, dataflow_trial, stage

from stepbench.contracts.plan import TrialPlan
from stepbench.contracts.target import RedisTarget, Target
from stepbench.costs import prices
from stepbench.costs.assumptions import MOST
from stepbench.costs.prices import price_table
from stepbench.costs.standing import Deployment
from stepbench.experiments.dataflow.offering import (
    MODELLED_LOCALLY,
    ExecutionUsage,
    WindowCost,
    WindowUsage,
    dag_amounts,
    transitions_of,
    window_costs,
)
from stepbench.experiments.estimates import budgeted, upper_bound

ONE = ExecutionUsage(latency_s=2, task_s=8, end_s=0, tasks=8, attempts=8, levels=3, puts=11, gets=12, moved_bytes=0)
USE = WindowUsage((ONE, ONE), busy_s=4, whole_s=100)
FUNCTIONS = 8 * 1_769 / 1_024 * 1.66667e-5 + 9 * 2e-7
STATES = (5 + 2 * 3 + 2 * 8) * 2.5e-5


def _costs(store: str, deployment: Deployment | None = None, **fields: str) -> dict[tuple[str, bool], WindowCost]:
    target = TypeAdapter[Target](Target).validate_python({"store": store, **fields})
    found = window_costs(USE, target, deployment or Deployment(emulator="ministack"))
    return {(each.prices.rpartition(", ")[2], each.idle): each for each in found}


def test_s3_is_paid_by_the_request() -> None:
    """Whether anybody uses it meanwhile or not."""
    costs = _costs("s3")
    for idle in (False, True):
        found = costs["November 2022", idle]
        assert found.parts == pytest.approx(
            {"functions": FUNCTIONS, "orchestration": STATES, "store": 11 * 5e-6 + 12 * 4e-7}
        )
        assert found.usd == pytest.approx([sum(found.parts.values())] * 2)


def test_a_server_is_paid_by_the_hour() -> None:
    """Two executions share it: the 4 s in which they went on, or all of the 100 s."""
    costs = _costs("redis")
    assert costs["November 2022", False].parts["store"] == pytest.approx(0.216 * 2 / 3_600)
    assert costs["November 2022", True].parts["store"] == pytest.approx(0.216 * 50 / 3_600)


def test_a_serverless_cache_is_paid_by_the_kilobyte() -> None:
    """One put and 32 gets of 8 MiB: 33 x 8,192 units, and not 33 requests."""
    usage = WindowUsage((ONE._replace(puts=1, gets=32, moved_bytes=33 * 8 * 2**20),), busy_s=4, whole_s=100)
    serverless = Deployment(options={"ElastiCache": "serverless"})
    found = next(each for each in window_costs(usage, RedisTarget(store="redis"), serverless) if not each.idle)
    assert found.parts["store"] >= 33 * 8_192 * 2.3e-9


def test_a_retry_is_one_transition_more() -> None:
    """The choice before a task is not made again."""
    assert transitions_of(3, 8, 9) == transitions_of(3, 8, 8) + 1 == 5 + 2 * 3 + 8 + 9


def test_today_differs_from_the_published_month() -> None:
    """Valkey is a fifth cheaper than Redis was, and a public address costs."""
    today = next(cost for (name, idle), cost in _costs("redis").items() if name != "November 2022" and not idle)
    assert today.parts["store"] == pytest.approx(0.1728 * 2 / 3_600)
    cassandra = _costs("cassandra")
    volume = 20 * 0.08 / 730
    assert cassandra["November 2022", False].parts["store"] == pytest.approx((0.156 + volume) * 2 / 3_600)
    later = next(cost for (name, idle), cost in cassandra.items() if name != "November 2022" and not idle)
    assert later.parts["store"] == pytest.approx((0.156 + volume + 0.005) * 2 / 3_600)


def test_of_hosts_side_by_side_a_trial_pays_for_its_own() -> None:
    """Figures 6 and 7 set instance types against each other by their prices; the first has its own disk, no volume."""
    options = {"CassandraNode": "on", "CassandraInstanceType": "i3.large", "CassandraDataVolumeGib": "0"}
    stack = Deployment(options=options | {"CassandraBesideTypes": "m5.large,c5.large"})
    for fields, hourly in (({}, 0.156 + 20 * 0.08 / 730), ({"host": "c5.large"}, 0.085 + 120 * 0.08 / 730)):
        found = _costs("cassandra", stack, **fields)["November 2022", False]
        assert found.parts["store"] == pytest.approx(hourly * 2 / 3_600)
        assert not found.modelled


def test_what_was_not_paid_is_told() -> None:
    """Locally nothing was; a server of somebody else's is priced as the published one; the stack's own is paid."""
    node = Deployment(options={"ElastiCache": "node", "ElastiCacheNodeType": "cache.r7g.large"})
    assert {cost.modelled for cost in _costs("redis").values()} == {MODELLED_LOCALLY}
    assert {cost.modelled for cost in _costs("redis", node, endpoint="10.0.0.9:6379").values()} == {
        "modelled: the price of cache.r5.large for a server that is not the stack's"
    }
    paid = _costs("redis", node)
    assert {cost.modelled for cost in paid.values()} == {""}
    today = next(cost for (name, idle), cost in paid.items() if name != "November 2022" and not idle)
    assert today.parts["store"] == pytest.approx(0.1752 * 2 / 3_600)
    assert {cost.modelled for cost in _costs("s3", Deployment()).values()} == {""}


def test_the_published_table_has_no_other_units() -> None:
    """A price by the thousand beside one by the piece would make one store a thousand times dearer."""
    today, then = price_table().regions["us-east-1"], price_table().published
    assert {key: today[key].unit for key in then} == {key: row.unit for key, row in then.items()}


def test_what_is_expected_is_not_what_may_be_spent_at_most() -> None:
    """Tasks are not all as long as their time-out; a budget that assumed it would refuse every plan."""
    trial = TrialPlan.model_validate(dataflow_trial())
    expected, most = budgeted(trial), upper_bound(trial)
    per_task = 1_769 / 1_024 * 1.66667e-5
    assert most.total_usd - expected.total_usd > 2 * 8 * (3 * 20 - 5) * per_task
    note = "8 tasks of diamond in each of 2 executions"
    tasks = next(item for item in expected.lines if item.note == note)
    assert tasks.quantity == pytest.approx(2 * (8 * 5 * 1_769 / 1_024 + 1))
    requests = {item.item: item.quantity for item in expected.lines if item.note.startswith("as the DAG says")}
    assert requests == {"S3 PUT requests": 22, "S3 GET requests": 24}
    assert DIAMOND["name"] in note


def test_an_estimate_is_of_the_memory_that_the_largest_stage_needs() -> None:
    """All tasks of a stack have one memory, at least that: by hand, two tasks, and 20 s three times for each."""

    def gb_s(memory_mib: int | None) -> float:
        dag = {"name": "dag", "stages": [stage("a", memory_mib=memory_mib), stage("b", ("a", "broadcast"))]}
        trial = TrialPlan.model_validate(dataflow_trial(dag))
        executions = sum(trial.events_of(phase) for phase in trial.run_phases)
        found = sum(
            each.quantity for each in dag_amounts(trial, MOST, at_most=True) if each.price is prices.LAMBDA_GB_S
        )
        return found / executions

    assert gb_s(512) == gb_s(None)
    assert gb_s(10_240) - gb_s(None) == pytest.approx(2 * 3 * 20 * (10_240 - 1_769) / 1_024)
