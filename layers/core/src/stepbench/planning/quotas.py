"""
What the trials of a plan need of an account's quotas, and of Step Functions' limit on an execution's history.

An execution that starts counts against `StartExecution`, and each of its states against `StateTransition`, quotas of
the account in a region. Both are token buckets. A start without a token fails as ThrottlingException; a state without
one waits, so that the latency would be the quota's.

Source:
    AWS Step Functions Developer Guide, "Step Functions service quotas": quotas related to state throttling, and to
    throttling of API actions, of Standard Workflows.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from stepbench.contracts.experiment import traits_of
from stepbench.contracts.plan import offered_plan
from stepbench.contracts.rules.load import METRICS_LOOP_S, METRICS_WAIT_S
from stepbench.contracts.target import DynamoDbTarget
from stepbench.costs.estimate import peak_units, provisioned_units
from stepbench.errors import Problem, raise_problems
from stepbench.experiments.dataflow.offering import transitions_of
from stepbench.experiments.registry import experiment_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from stepbench.contracts.dataflow.dag import Dag
    from stepbench.contracts.phase import LoadStep
    from stepbench.contracts.plan import AnyTrial
    from stepbench.planning.expansion import Expanded

OTHER_FUNCTIONS = 10
"""Sandboxes of a run beside writers and receivers: stages, watchers, the API."""
HISTORY_EVENTS = 25_000
"""Of an execution; it fails at the next one. Step Functions' quota, which cannot be raised."""
EVENTS_PER_STATE, STATES_PER_TRIAL, STATES_PER_PHASE, STATES_PER_LOOK, LANES = 6, 60, 30, 4, 2
WATCH_S = 600
"""So long a round of a watcher's loop takes at least; loads are watched for hours."""
STARTS, TRANSITIONS = "StartExecution", "StateTransition"
QUOTA_NAMES = {
    name: (f"{name} throttle token bucket size", f"{name} throttle token refill rate per second")
    for name in (STARTS, TRANSITIONS)
}
"""As Service Quotas has them, of the service `states`."""
_LARGE_REGIONS = frozenset({"us-east-1", "us-west-2", "eu-west-1"})
_DEFAULT = "AWS's default, since the account's own could not be read"


class Bucket(NamedTuple):
    """So many at once when nothing was asked for before, then so many a second; `source` is empty if it was read."""

    size: int
    refill_per_s: int
    source: str = _DEFAULT

    def lasts(self, load: tuple[LoadStep, ...], each: int) -> bool:
        """Return whether a full bucket has enough for a load, of whose events each takes so many tokens."""
        left = float(self.size)
        for step in load:
            left = min(self.size, left + (self.refill_per_s - each * step.rate_per_s) * step.length_s)
            if left < 0:
                return False
        return True


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


def check_quotas(trials: Sequence[Expanded], quotas: Quotas | None, *, aborts: bool) -> None:
    """
    Refuse trials that need more than their account has; None is an emulator's, which has no account.

    aborts: whether thresholds may end their phases.

    Raises:
        PlanError: with every trial that needs more.
    """
    problems = [*_history_problems(trials, aborts=aborts)]
    if quotas is not None:
        problems += [*_sandbox_problems(trials, quotas), *_unit_problems(trials, quotas)]
        problems += orchestration_problems(trials, quotas.buckets or {})
    raise_problems(problems)


def history_events(trial: AnyTrial, *, aborts: bool = False) -> int:
    """
    Return how many events the trial machine's history has, at most; writers have histories of their own.

    aborts: whether thresholds may end its phases.
    """
    looks = offered_plan(trial).most_checks(aborts=aborts) if traits_of(trial.experiment).windows else 0
    looks += METRICS_WAIT_S // METRICS_LOOP_S * sum(phase.probe or phase.uses_found_rate for phase in trial.phases)
    rounds = LANES * trial.length_s / WATCH_S if trial.pull else 0
    states = STATES_PER_TRIAL + STATES_PER_PHASE * len(trial.phases) + STATES_PER_LOOK * (looks + rounds)
    return math.ceil(EVENTS_PER_STATE * states)


def _history_problems(trials: Sequence[Expanded], *, aborts: bool) -> Iterator[Problem]:
    for trial in trials:
        events = history_events(trial.plan, aborts=aborts)
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
            f"{_with_source(quotas.sandboxes, quotas.sandboxes_source)}"
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
            given = _with_source(min(most, quotas.account_write_units), quotas.units_source)
            message = f"asks for {units:,} write units, and the account gives a table {given}"
            yield Problem(at, f"{units}", message, "Lower it, or have DynamoDB's quota of write throughput raised.")
        peak = math.ceil(peak_units(offered_plan(trial.plan)))
        if units is None and peak > most:
            message = f"is offered {peak:,} write units a second, and a table of the account takes"
            remedy = "Offer less, or have DynamoDB's quota of table-level write throughput raised."
            yield Problem(at, target.capacity.mode, f"{message} {_with_source(most, quotas.units_source)}", remedy)


def _with_source(quota: int, source: str) -> str:
    return f"{quota:,}, which is {source}" if source else f"{quota:,}"


def default_buckets(region: str) -> dict[str, Bucket]:
    """Return what accounts have in a region without asking for more; new ones may have less."""
    if region in _LARGE_REGIONS:
        return {STARTS: Bucket(1_300, 300), TRANSITIONS: Bucket(5_000, 5_000)}
    return {STARTS: Bucket(800, 150), TRANSITIONS: Bucket(800, 800)}


def orchestration_problems(trials: Iterable[Expanded], buckets: Mapping[str, Bucket]) -> Iterator[Problem]:
    """
    Yield the phases that start more executions, or have more transitions, than the quotas permit.

    Each phase finds full buckets, since a few seconds fill them. Clients of a closed loop start no execution before the
    one before has ended, at a rate that nobody knows before.
    """
    for trial in trials:
        if not trial.plan.dags:
            continue
        own = offered_plan(trial.plan)
        for index, phase in enumerate(own.run_phases):
            dag = own.dag_of(phase)
            for name, each in ((STARTS, 1), (TRANSITIONS, _transitions(dag))):
                if not buckets[name].lasts(phase.load, each):
                    at = f"trials[{trial.source}].phases[{index}].load"
                    yield _problem(at, max(step.rate_per_s for step in phase.load), name, each, buckets[name])


def _transitions(dag: Dag) -> int:
    return transitions_of(len(dag.levels), dag.tasks, dag.tasks)


def _problem(at: str, rate_per_s: float, name: str, each: int, bucket: Bucket) -> Problem:
    what = "executions" if name == STARTS else f"state transitions ({each:,} an execution)"
    message = (
        f"asks Step Functions for up to {rate_per_s * each:,.0f} {what} a second, and the account has "
        f"{bucket.refill_per_s:,} a second in this region, and {bucket.size:,} at once"
    )
    quota = f'Step Functions\' quotas "{QUOTA_NAMES[name][1]}" and "… bucket size" raised.'
    remedy = f"Lower rate_per_s or its duration, give the DAG fewer tasks, or have {quota}"
    return Problem(at, f"{rate_per_s:g}", f"{message}{bucket.source and f' ({bucket.source})'}", remedy)
