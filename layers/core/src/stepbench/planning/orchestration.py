"""
How many executions of DAGs Step Functions starts and moves on in a second: what is beyond waits, or is refused.

An execution that starts counts against `StartExecution`, and each of its states against `StateTransition`, quotas of
the account in a region. Both are token buckets. A start without a token fails as ThrottlingException; a state without
one waits, so that the latency would be the quota's.

Source:
    AWS Step Functions Developer Guide, "Step Functions service quotas": quotas related to state throttling, and to
    throttling of API actions, of Standard Workflows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from stepbench.contracts.plan import offered_plan
from stepbench.errors import Problem
from stepbench.experiments.dataflow.prices import transitions_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from stepbench.contracts.dataflow.dag import Dag
    from stepbench.contracts.phase import LoadStep
    from stepbench.planning.expansion import Expanded

STARTS, TRANSITIONS = "StartExecution", "StateTransition"
QUOTA_NAMES = {
    name: (f"{name} throttle token bucket size", f"{name} throttle token refill rate per second")
    for name in (STARTS, TRANSITIONS)
}
"""As Service Quotas has them, of the service `states`."""
_LARGE_REGIONS = frozenset({"us-east-1", "us-west-2", "eu-west-1"})


class Bucket(NamedTuple):
    """So many at once when nothing was asked for before, then so many a second; `source` is empty if it was read."""

    size: int
    refill_per_s: int
    source: str = "AWS's default, since the account's own could not be read"

    def lasts(self, load: tuple[LoadStep, ...], each: int) -> bool:
        """Tell whether a full bucket has enough for a load, of whose events each takes so many tokens."""
        left = float(self.size)
        for step in load:
            left = min(self.size, left + (self.refill_per_s - each * step.rate_per_s) * step.length_s)
            if left < 0:
                return False
        return True


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
