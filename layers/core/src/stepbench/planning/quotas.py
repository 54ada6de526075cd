"""What the trials of a plan need of an account's quotas, and of Step Functions' limit on an execution's history."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from stepbench.contracts.phase import MAX_PRECISION_CHECKS
from stepbench.contracts.plan import offered_plan
from stepbench.contracts.rules.load import METRICS_LOOP_S, METRICS_WAIT_S
from stepbench.contracts.target import DynamoDbTarget
from stepbench.costs.capacity import peak_units, provisioned_units
from stepbench.errors import Problem, raise_problems
from stepbench.experiments.registry import experiment_of
from stepbench.planning.orchestration import orchestration_problems

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from stepbench.contracts.plan import AnyTrial
    from stepbench.planning.expansion import Expanded
    from stepbench.planning.orchestration import Bucket

OTHER_FUNCTIONS = 10
"""Sandboxes of a run beside writers and receivers: stages, watchers, the API."""
HISTORY_EVENTS = 25_000
"""Of an execution; it fails at the next one. Step Functions' quota, which cannot be raised."""
EVENTS_PER_STATE, STATES_PER_TRIAL, STATES_PER_PHASE, STATES_PER_LOOK, LANES = 6, 60, 30, 4, 2
WATCH_S = 600
"""So long a round of a watcher's loop takes at least; loads are watched for hours."""
_DEFAULT = "which is AWS's default, since the account's own could not be read"


class Quotas(NamedTuple):
    """
    An account's quotas in the stack's region; `source` says where a number comes from if it is AWS's default.

    buckets: of Step Functions, by name; only where executions of DAGs are to be started.
    """

    sandboxes: int = 1_000
    table_write_units: int = 40_000
    account_write_units: int = 80_000
    sandboxes_source: str = _DEFAULT
    units_source: str = _DEFAULT
    buckets: Mapping[str, Bucket] | None = None


def check_quotas(trials: Sequence[Expanded], quotas: Quotas | None) -> None:
    """
    Refuse trials that need more than their account has; None is an emulator's, which has no account.

    Raises:
        PlanError: with every trial that needs more.
    """
    problems = [*_history_problems(trials)]
    if quotas is not None:
        problems += [*_sandbox_problems(trials, quotas), *_unit_problems(trials, quotas)]
    if quotas is not None and quotas.buckets is not None:
        problems += orchestration_problems(trials, quotas.buckets)
    raise_problems(problems)


def history_events(trial: AnyTrial) -> int:
    """Return how many events the trial machine's history has, at most; writers have histories of their own."""
    looks = MAX_PRECISION_CHECKS * sum(phase.until is not None for phase in trial.phases)
    looks += METRICS_WAIT_S // METRICS_LOOP_S * sum(phase.probe or phase.uses_found_rate for phase in trial.phases)
    rounds = LANES * trial.length_s / WATCH_S if trial.pull else 0
    states = STATES_PER_TRIAL + STATES_PER_PHASE * len(trial.phases) + STATES_PER_LOOK * (looks + rounds)
    return math.ceil(EVENTS_PER_STATE * states)


def _history_problems(trials: Sequence[Expanded]) -> Iterator[Problem]:
    for trial in trials:
        events = history_events(trial.plan)
        if events > HISTORY_EVENTS:
            message = (
                f"would make some {events:,} events in the history of an execution, which takes {HISTORY_EVENTS:,}"
            )
            yield Problem(f"trials[{trial.source}].phases", str(len(trial.plan.phases)), message, "Split the trial.")


def _sandbox_problems(trials: Sequence[Expanded], quotas: Quotas) -> Iterator[Problem]:
    for trial in trials:
        found = experiment_of(trial.plan.experiment).offering.sandboxes(trial.plan)
        needed = found.writers + found.others + OTHER_FUNCTIONS
        if needed <= quotas.sandboxes:
            continue
        message = (
            f"needs {needed:,} concurrent executions of Lambda ({found.writers:,} writers, {found.others:,} "
            f"{found.others_name}, {OTHER_FUNCTIONS} others), and the account has "
            f"{_told(quotas.sandboxes, quotas.sandboxes_source)}"
        )
        remedy = "Lower writers or max_concurrency, offer less, or have Lambda's quota Concurrent executions raised."
        field, value = found.field
        yield Problem(f"trials[{trial.source}].{field}", str(value), message, remedy)


def _unit_problems(trials: Sequence[Expanded], quotas: Quotas) -> Iterator[Problem]:
    for trial in trials:
        target = trial.plan.target
        if not isinstance(target, DynamoDbTarget) or target.endpoint is not None:
            continue
        at, most = f"trials[{trial.source}].target.capacity", quotas.table_write_units
        units = provisioned_units(trial.plan)
        if units is not None and units > min(most, quotas.account_write_units):
            told = _told(min(most, quotas.account_write_units), quotas.units_source)
            message = f"asks for {units:,} write units, and the account gives a table {told}"
            yield Problem(at, f"{units}", message, "Lower it, or have DynamoDB's quota of write throughput raised.")
        peak = math.ceil(peak_units(offered_plan(trial.plan)))
        if units is None and peak > most:
            message = f"is offered {peak:,} write units a second, and a table of the account takes"
            remedy = "Offer less, or have DynamoDB's quota of table-level write throughput raised."
            yield Problem(at, target.capacity.mode, f"{message} {_told(most, quotas.units_source)}", remedy)


def _told(quota: int, source: str) -> str:
    return f"{quota:,}, {source}" if source else f"{quota:,}"
