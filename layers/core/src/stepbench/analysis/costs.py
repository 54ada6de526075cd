"""What a trial did, counted from the evidence for its bill."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepbench.analysis.precision import shorten_plan
from stepbench.contracts.target import DynamoDbTarget
from stepbench.contracts.workload import OPERATION_KINDS
from stepbench.costs.actual import ANOTHER_RUN, Done, FunctionUsage, actual_cost
from stepbench.costs.prices import Offered, Stretch
from stepbench.costs.transitions import Visits, trial_transitions
from stepbench.digits import counted
from stepbench.records.formats.columns import UNSENT

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from stepbench.analysis.evidence import Evidence
    from stepbench.analysis.findings import OwnUsage
    from stepbench.contracts.capacity import Capacity
    from stepbench.contracts.cost import Cost
    from stepbench.contracts.invocations import Invocations
    from stepbench.contracts.plan import TrialPlan
    from stepbench.records.join.joined import Joined

WATCH_LANES = 2
_HOUR_NS = 3.6e12
LEAST_SEEN = 0.9
"""Of so large a share of the receivers' invocations a line is enough to multiply up to all of them."""


def trial_cost(evidence: Evidence, functions: Sequence[Invocations], own: OwnUsage) -> Cost:
    """Price what the trial did. Events that may have been sent are billed as sent."""
    plan, joined, records = evidence.spec.offered, evidence.joined, evidence.records
    missing = "; ".join(_missing_logs(evidence, functions, own))
    used = None if missing else tuple(_uses(evidence, functions))
    sent = int(np.count_nonzero(_sent(joined)))
    stretches = tuple(_stretches(evidence))
    done = Done(
        offered=Offered(sent + plan.preloaded_keys, joined.canaries, evidence.held_s / 3_600, stretches, own.objects),
        delivered=int(joined.arrivals.sum(dtype=np.int64)) + joined.canaries + joined.unmatched,
        batches=len(records.items) - records.in_fallback,
        functions=used,
        transitions=None if used is None else trial_transitions(_visits(evidence, used)),
        objects=evidence.objects,
        missing_logs=missing,
        own_server=plan.target.endpoint is not None,
        dag_transitions=own.transitions,
        dag_writes=own.writes,
    )
    return actual_cost(_as_run(evidence), done, evidence.deployment, evidence.spec.estimate_usd)


def _sent(joined: Joined) -> NDArray[np.bool_]:
    sent: NDArray[np.bool_] = joined.offered & (joined.outcome != UNSENT)
    return sent


def _stretches(evidence: Evidence) -> Iterator[Stretch]:
    """Yield what a table took by the capacity that it had: another one from the start of the phase that asks for it."""
    plan, joined, target = evidence.spec.offered, evidence.joined, evidence.spec.offered.target
    if not isinstance(target, DynamoDbTarget):
        return
    sent, begin_ns = _sent(joined), evidence.taken_at_ns
    capacity: Capacity = target.capacity
    number = plan.preloaded_keys + joined.canaries
    for phase, start_ns in sorted(evidence.records.starts_ns.items()):
        if (scale := plan.phases[phase].scale) is not None:
            yield Stretch(capacity, number, max(0, start_ns - begin_ns) / _HOUR_NS)
            number, capacity, begin_ns = 0, scale.capacity, start_ns
        number += int(np.count_nonzero(sent[slice(*joined.grid.span_of_phase(phase))]))
    end_ns = evidence.taken_at_ns + evidence.held_s * 1e9
    yield Stretch(capacity, number, max(0, end_ns - begin_ns) / _HOUR_NS)


def _as_run(evidence: Evidence) -> TrialPlan:
    """Return the plan with phases as long as they were, and with as many operations of each kind as were sent."""
    plan = shorten_plan(evidence.spec.offered, evidence)
    kinds = evidence.joined.extras.get("kind")
    if plan.workload is None or kinds is None:
        return plan
    counts = np.bincount(kinds[_sent(evidence.joined)].astype(np.int64), minlength=len(OPERATION_KINDS)).tolist()
    if not sum(counts):
        return plan
    weights = {kind.name.lower(): counts[kind] for kind in OPERATION_KINDS}
    mix = plan.workload.mix.model_copy(update=weights)
    return plan.model_copy(update={"workload": plan.workload.model_copy(update={"mix": mix})})


def _missing_logs(evidence: Evidence, functions: Sequence[Invocations], own: OwnUsage) -> Iterator[str]:
    """Yield why the log does not tell what Lambda bills; nothing where it does."""
    collection, records = evidence.collection, evidence.records
    if collection is None:
        yield "no log was collected"
        return
    if collection.shared or collection.others:
        yield ANOTHER_RUN
    if collection.every == 1 and collection.seen < LEAST_SEEN * collection.expected:
        yield f"{collection.seen} of {counted(collection.expected, 'invocation')} of the receiver left a log line"
    least = {"PlanPhase": len(records.starts_ns)}
    if not evidence.failure.Error:
        least |= {"PrepareTarget": 1, "AwaitTarget": 1, "AwaitArrivals": 1}
    if evidence.spec.offered.load_from == "lambda":
        least["RunWriter"] = len(records.started)
    if not records.items.all_received:
        least["WatchChanges"] = 1
    if collection.every == 1:
        least |= own.invocations
    reported = {each.function: each.invocations for each in functions}
    for name, count in least.items():
        if reported.get(name, 0) < count:
            yield f"{reported.get(name, 0)} of at least {counted(count, 'invocation')} of {name} left a log line"


def _uses(evidence: Evidence, functions: Sequence[Invocations]) -> Iterator[FunctionUsage]:
    """Yield what is billed of each function; of the receiver the invocations are known from its own records."""
    receiver, invoked = evidence.spec.offered.receiver, evidence.records.items.tries
    arm64 = evidence.served.function_arm64 if evidence.spec.offered.target.function else None
    for each in functions:
        whole = each.function != receiver or not each.invocations or invoked <= each.invocations
        count = each.invocations if whole else invoked
        scale = 1 if whole else invoked / each.invocations
        yield FunctionUsage(each.function, count, each.billed_gb_s, scale, arm64 if each.function == receiver else None)


def _visits(evidence: Evidence, used: Sequence[FunctionUsage]) -> Visits:
    plan, planned = evidence.spec.offered, evidence.records.starts_ns
    needed, inline = [plan.phases[number] for number in planned], planned.keys() & set(plan.inline_phases)
    invoked = {each.name: each.invocations for each in used}
    if evidence.collection is not None:
        invoked["CollectLogs"] = evidence.collection.calls
    return Visits(
        phases=len(needed) if evidence.failure.Error else len(plan.phases),
        needed=len(needed),
        slices=sum(phase.slices * plan.writers for phase in needed),
        on_host=plan.load_from == "host",
        invoked=invoked,
        scaled=sum(phase.scale is not None for phase in needed),
        sure=sum(map(evidence.spec.may_end_early, planned)),
        utilised=sum(phase.probe or phase.uses_found_rate for phase in needed),
        missing=len(evidence.missing),
        lanes=WATCH_LANES if plan.pull else 0,
        inline=len(inline) * plan.writers,
        inline_phases=len(inline),
        maps=sum(phase.invoked is not None for phase in needed),
    )
