"""Plans that Aurora DSQL's quotas would turn into a measurement of refusals."""

from __future__ import annotations

from typing import Any

import pytest

from stepbench.contracts.dsql_rules import dsql_rules
from stepbench.contracts.plan import TrialPlan
from stepbench.contracts.target import DsqlTarget, RedisTarget
from stepbench.contracts.workload import Workload


def _trial(closed: dict[str, Any] | None = None, *, reuse: bool = False, **fields: Any) -> TrialPlan:  # noqa: ANN401 -- JSON
    """Checked for another store, so that the rule can be asked by itself; two phases alike."""
    load = {"closed": closed} if closed else {"load": [fields.pop("load")]}
    plan = TrialPlan.model_validate(
        {
            "experiment": "operations",
            "target": {"store": "redis"},
            "workload": {"mix": {"read": 1}},
            "phases": [{"name": name, **load} for name in ("a", "b")],
            **fields,
        }
    )
    return plan.model_copy(update={"target": DsqlTarget(store="dsql"), "workload": Workload(reuse=reuse)})


def _at(trial: TrialPlan) -> list[str]:
    return [broken.at for broken in dsql_rules(trial)]


@pytest.mark.parametrize(
    ("closed", "at"),
    [
        ({"clients": 8, "duration_s": 600}, []),  # 8 / 0.08 s is 100 a second
        ({"clients": 16, "duration_s": 5}, []),  # 100 a second too many, for 10 s in all: the allowance
        ({"clients": 16, "duration_s": 6}, ["phases[1].closed"]),
        ({"clients": 16, "duration_s": 11}, ["phases[0].closed"]),
        ({"clients": 200, "think_ms": 1_920, "duration_s": 600}, []),
        ({"clients": 200, "duration_s": 600, "operations": 500}, []),
        ({"clients": 200, "duration_s": 600, "operations": 5_000}, ["phases[0].closed"]),
    ],
)
def test_without_reuse_operations_are_new_connections(closed: dict[str, Any], at: list[str]) -> None:
    """100 a second, and 1,000 once beyond that: the rest would be 53400."""
    assert _at(_trial(closed)) == at


@pytest.mark.parametrize(
    ("load", "at"),
    [
        ({"rate_per_s": 100, "duration_s": 300}, []),
        ({"rate_per_s": 200, "duration_s": 5}, []),
        ({"rate_per_s": 200, "duration_s": 11}, ["phases[0].load"]),
    ],
)
def test_the_same_in_open_loop(load: dict[str, Any], at: list[str]) -> None:
    """There the rate is the plan's own."""
    assert _at(_trial(load=load)) == at


@pytest.mark.parametrize(
    ("closed", "at"),
    [
        ({"clients": 1_000, "duration_s": 10, "operations": 2_000}, []),
        ({"clients": 1_000, "duration_s": 9, "operations": 2_000}, ["phases[1].closed"]),  # by then 900 have come back
        ({"clients": 1_001, "duration_s": 10, "operations": 2_000}, ["phases[0].closed"]),
    ],
)
def test_with_reuse_each_phase_opens_its_sessions_at_once(closed: dict[str, Any], at: list[str]) -> None:
    """Writers are new ones in each phase, and have seconds to open them."""
    assert _at(_trial(closed, reuse=True, writers=2)) == at


def test_a_cluster_holds_ten_thousand_connections() -> None:
    """In open loop each operation in flight has one."""
    load = {"rate_per_s": 1, "count": 10}
    assert _at(_trial(load=load, reuse=True, writers=100, max_in_flight=100)) == []
    assert _at(_trial(load=load, reuse=True, writers=101, max_in_flight=100)) == ["max_in_flight"]


def test_other_stores_have_no_such_limits() -> None:
    """Redis without reuse makes as many as it can."""
    plan = _trial({"clients": 8, "duration_s": 600})
    assert _at(plan.model_copy(update={"target": RedisTarget(store="redis")})) == []
