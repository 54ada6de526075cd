"""
Made-up results of a plan of operations, trial by trial: what its report would look like, without running it.

Nothing in them was measured: medians follow from store, TLS, reuse, cluster, region and clients by invented factors.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from stepbench.analysis.setup import setup_of
from stepbench.contracts.workload import Kind
from stepbench.stats.scalability import Usl
from stepbench.testing.sample_operations import Sample, made_up

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepbench.contracts.plan import TrialPlan, TrialSpec
    from stepbench.contracts.result import TrialResult

_SERVICE_MS = {"redis": 0.3, "dynamodb": 4.0, "etcd": 1.2, "dsql": 6.0, "cassandra": 1.5}
_OTHERS_MS = 0.8
_FACTORS: tuple[tuple[str, dict[object, float]], ...] = (
    ("target.tls", {True: 1.2}),
    ("workload.reuse", {False: 9.0}),
    ("target.cluster", {True: 1.1, "multi": 1.4}),
)
_REMOTE_MS = 65.0


def planned_results(specs: Sequence[TrialSpec]) -> tuple[TrialResult, ...]:
    """One for each trial of operations in closed loop, with the names, windows and setup that a run would give it."""
    return tuple(_result(spec) for spec in specs)


def _result(spec: TrialSpec) -> TrialResult:
    window, phase = _window(spec.plan)
    made = made_up(_sample(spec), spec.index, random.Random(spec.index))  # noqa: S311
    own = {"name": window, "phase": phase}
    summary = made.summary.model_copy(
        update={
            "group": spec.group,
            "setup": setup_of(spec.plan),
            "windows": tuple(each.model_copy(update=own) for each in made.summary.windows),
        }
    )
    drawn = {"window": window, "phase": phase}
    return made.model_copy(
        update={
            "summary": summary,
            "series": tuple(each.model_copy(update={"phase": phase}) for each in made.series),
            "phases": tuple(each.model_copy(update={"name": phase}) for each in made.phases),
            "ecdf": tuple(each.model_copy(update=drawn) for each in made.ecdf),
            "boxes": tuple(each.model_copy(update=drawn) for each in made.boxes),
        }
    )


def _window(plan: TrialPlan) -> tuple[str, str]:
    return next((window.name, phase.name) for phase in plan.phases for window in phase.all_windows())


def _sample(spec: TrialSpec) -> Sample:
    closed = next(phase.closed for phase in spec.plan.phases if phase.measured and phase.closed)
    alone_ms = _median_ms(spec)
    median_ms = 1_000 * closed.clients / Usl(1_000 / alone_ms, 0.03, 0.0001).throughput(closed.clients)
    store = spec.plan.target.store
    return Sample(
        name=spec.name,
        store=store,
        provider=store,
        clients=closed.clients,
        median_ms=median_ms,
        per_s=1_000 * closed.clients / (median_ms + closed.think_ms),
        kinds=tuple(_kinds(spec.plan)),
        point=spec.point,
        base=spec.base,
        repeat=spec.repeat,
    )


def _median_ms(spec: TrialSpec) -> float:
    setup: dict[str, Any] = setup_of(spec.plan)
    median_ms = _SERVICE_MS.get(spec.plan.target.store, _OTHERS_MS)
    for path, factors in _FACTORS:
        median_ms *= factors.get(setup.get(path), 1.0)
    return median_ms + (_REMOTE_MS if setup.get("target.region") else 0.0)


def _kinds(plan: TrialPlan) -> Iterator[tuple[Any, float]]:
    mix = plan.workload.mix if plan.workload else None
    yield from ((kind.name.lower(), 1.0 + 0.1 * kind) for kind in Kind if mix and mix.weights[kind])
