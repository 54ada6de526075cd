"""What a trial's phases ask of the store: the workload of each phase's DAG, and for how long. Pure."""

from __future__ import annotations

import math
import statistics
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from stepbench.contracts.tuning import Expected, StoreWorkload
from stepbench.workload.expected_mix import expected_mix

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stepbench.contracts.dataflow.dag import Dag
    from stepbench.contracts.phase import Phase
    from stepbench.contracts.trial import TrialFields

UNKNOWN_BLOB_BYTES = 65_536
"""The assumed size of objects of a DAG that does not say how large they are."""
NOTHING: Mapping[str, Any] = MappingProxyType({})


def workload_of(dag: Dag, blob_bytes: int | None = None) -> StoreWorkload | None:
    """
    Return what an execution asks of the store; None where no stage passes anything on.

    Reads by all requests, and as many clients as the widest level has tasks. The size is what the caller knows of an
    object, or else the geometric mean of the written ones, as far as the DAG says how large they are.
    """
    mix = expected_mix(dag)
    if mix.read_share is None:
        return None
    octaves = [
        math.log2(max(1, each.blob_bytes or UNKNOWN_BLOB_BYTES)) for each in mix.edges for _ in range(each.writes)
    ]
    mean = round(2 ** statistics.fmean(octaves))
    return StoreWorkload(read_share=mix.read_share, blob_bytes=blob_bytes or mean, clients=mix.concurrency)


def expected_from(
    trial: TrialFields, first: int, seen_s: Mapping[str, float] = NOTHING, sizes: Mapping[str, int] = NOTHING
) -> tuple[Expected, ...]:
    """
    Return what is to come from a phase on; phases whose DAG passes nothing on ask for nothing.

    Args:
        trial: what is planned.
        first: the number of the coming phase.
        seen_s: how long an execution of a DAG, by its name, has taken so far. A closed loop ends with its last
            execution, so that without it only a bound of its duration is known, which would promise too much.
        sizes: how large an object is, by the DAG's name, where its author says it.
    """
    phases = ((each, trial.dag_of(each)) for each in trial.phases[first:])
    return tuple(
        Expected(workload=workload, duration_s=_duration_s(phase, seen_s.get(dag.name)))
        for phase, dag in phases
        if (workload := workload_of(dag, sizes.get(dag.name))) is not None
    )


def _duration_s(phase: Phase, execution_s: float | None) -> float:
    if phase.closed is None or phase.closed.operations is None or execution_s is None:
        return phase.length_s
    rounds = -(-phase.closed.operations // phase.closed.clients)
    return min(phase.length_s, rounds * execution_s)
