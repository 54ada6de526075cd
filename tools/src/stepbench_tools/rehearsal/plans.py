"""The smallest plans that try what is assumed of AWS, and the rounds that they are run in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stepbench.planning import parse_plan
from stepbench_tools.rehearsal.budget import NETWORK_HOURLY_USD, Round

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stepbench.contracts.plan import Plan

FIRST, TRANSFERS = "s3-and-dynamodb", "transfers"
MANY_WRITERS = 12
RATE_PER_S, CLOCK_CHECK_RATE_PER_S = 24, 8
"""A sandbox that writes and receives does not more."""
WARM_UP_S, MEASURED_S, CLOCK_CHECK_S = 1, 4, 6
STOPPED_S = 120
"""The plan that is to be stopped would offer load for so long."""
NEEDED_CONCURRENCY = 100
"""Lambda keeps so many executions unreserved, and a rehearsal with a dozen writers takes some twenty."""


def first_round(*, writers: int, clock_check: bool, given: Mapping[str, Plan]) -> Round:
    """
    Return the round of S3 and DynamoDB, with plans of stores whose servers were given.

    Args:
        writers: of the trial with many of them.
        clock_check: whether the stack has `CheckClock`.
        given: plans by the name of the store.
    """
    trials = [trigger("s3"), operations("dynamodb")]
    trials.append(trigger("dynamodb", name="batched", batch_size=50, batching_window_s=1))
    if writers > 1:
        trials.append(trigger("s3", name="writers", writers=writers))
    if clock_check:
        checked = _clock_checked(trigger("dynamodb", name="one-sandbox", batch_size=1, same_sandbox=True))
        trials += [checked, _clock_checked(trigger("dynamodb", name="two-sandboxes", batch_size=1))]
    else:
        trials.append(trigger("dynamodb"))
    stopped = trigger("s3", name="stopped")
    stopped["phases"][1]["load"] = [{"rate_per_s": RATE_PER_S, "duration_s": STOPPED_S}]
    plans = (_plan(f"rehearse-{FIRST}", trials), *given.values(), _plan("rehearse-stopping", [stopped]))
    parameters = {"ClockCheck": "on" if clock_check else "off"}
    return Round(FIRST, plans, parameters, to_be_stopped=1)


def store_plan(store: str, **target: Any) -> Plan:  # noqa: ANN401 -- JSON
    """Return the smallest plan of a store that needs a server: its trigger if it has one, and operations."""
    pulled = [trigger(store)] if store in {"postgresql", "etcd"} else []
    return _plan(f"rehearse-{store}", [*pulled, operations(store, **target)])


def store_rounds() -> tuple[Round, ...]:
    """Return a round for each store, and the load host, that the stack can make, at list prices of us-east-1."""
    network = {"in_network": True}
    return (
        Round("dsql", (store_plan("dsql"),), {"Dsql": "on"}, limit_h=0.5),
        Round(
            "elasticache",
            (store_plan("redis", tls=True, cluster=True),),
            {"ElastiCache": "serverless"},
            NETWORK_HOURLY_USD + 0.01,
            **network,
        ),
        Round("cassandra", (store_plan("cassandra"),), {"CassandraNode": "on"}, NETWORK_HOURLY_USD + 0.17, **network),
        Round(
            "aurora",
            (store_plan("postgresql"),),
            {"AuroraPostgresql": "provisioned"},
            NETWORK_HOURLY_USD + 0.26,
            **network,
        ),
        Round(TRANSFERS, (_plan("rehearse-transfers", [transfers()]),), {"Efs": "on", "Fargate": "on"}, limit_h=0.5),
        Round("etcd", (store_plan("etcd"),), {"EtcdNodes": "on"}, NETWORK_HOURLY_USD + 0.30, **network),
        Round(
            "load-host",
            (_plan("rehearse-load-host", [{**trigger("s3"), "load_from": "host"}]),),
            {"LoadHost": "on"},
            NETWORK_HOURLY_USD + 0.69,
            **network,
        ),
    )


GIVEN = {
    "PostgresqlEndpoint": "postgresql",
    "EtcdEndpoint": "etcd",
    "RedisEndpoint": "redis",
    "CassandraEndpoint": "cassandra",
    "DsqlEndpoints": "dsql",
}
"""Stores by the parameter that names a server of one's own."""


def trigger(store: str, *, name: str | None = None, writers: int = 1, **target: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return a trial of a trigger: five seconds of load."""
    phases = [
        {"name": "warm-up", "measured": False, "load": [{"rate_per_s": RATE_PER_S, "duration_s": WARM_UP_S}]},
        {"name": "measured", "load": [{"rate_per_s": RATE_PER_S, "duration_s": MEASURED_S}]},
    ]
    return {
        "name": name or store,
        "target": {"store": store, **target},
        "phases": phases,
        "writers": writers,
        "drain_limit_s": 30,
    }


def operations(store: str, **target: Any) -> dict[str, Any]:  # noqa: ANN401 -- JSON
    """Return a trial of operations: two clients for two seconds, after one of warm-up."""
    phases = [
        {"name": "warm-up", "measured": False, "closed": {"clients": 2, "duration_s": 1}},
        {"name": "steady", "closed": {"clients": 2, "duration_s": 2}},
    ]
    return {
        "experiment": "operations",
        "name": f"{store}-operations",
        "target": {"store": store, **target},
        "workload": {"mix": {"read": 1, "insert": 1}, "records": 20},
        "phases": phases,
    }


def transfers() -> dict[str, Any]:
    """Return a trial of transfers: four cold ones on each platform, from both sources."""
    return {
        "experiment": "transfer",
        "name": "transfers",
        "platforms": ["lambda", "fargate"],
        "file_sizes_mib": [1, 25],
        "choice": "each",
        "transfers": 4,
        "cold": "required",
    }


def _clock_checked(trial: dict[str, Any]) -> dict[str, Any]:
    """Return a trial at a rate that one sandbox can write and receive."""
    warm_up, measured = trial["phases"]
    warm_up["load"] = [{"rate_per_s": CLOCK_CHECK_RATE_PER_S, "duration_s": WARM_UP_S}]
    measured["load"] = [{"rate_per_s": CLOCK_CHECK_RATE_PER_S, "duration_s": CLOCK_CHECK_S}]
    return trial


def _plan(name: str, trials: list[dict[str, Any]]) -> Plan:
    return parse_plan({"name": name, "trials": trials, "budget_usd": 1.0})
