"""
Schedules: when each event of a phase is due, which writer offers it, and how long closed-loop clients pause. Pure.

Event k of a phase (counted over its load steps) belongs to writer k mod writers, so that all writers together offer
an exactly even stream, across load steps too, and each knows its part without asking. Poisson arrivals are drawn for
each writer on its own: given their number, they are uniform over the step, independent, in order. A phase is drawn
whole and cut into slices afterwards, so what is offered does not depend on where the cuts are.

Source:
    Ross, Stochastic Processes (1996), theorem 2.3.1: arrival times of a Poisson process, given their number.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Literal

import numpy as np

from stepbench.contracts.phase import SLICE_S

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from stepbench.contracts.phase import LoadStep
    from stepbench.contracts.plan import TrialPlan

ThinkTime = Literal["constant", "exponential"]
_SECOND_NS = 1_000_000_000
_PAUSES = 1_024
"""Exponential pauses are drawn so many at a time."""
SLICE_NS = SLICE_S * _SECOND_NS


def phase_offsets_ns(plan: TrialPlan, phase: int, writer: int) -> NDArray[np.int64]:
    """Return when the writer's events are due, ns from the start of the phase, ascending."""
    rng = np.random.default_rng([plan.seed, phase, writer])
    parts = []
    begin_s, first = 0.0, 0
    for step in plan.phases[phase].steps:
        if plan.arrivals == "constant":
            due_ns = _constant_ns(step, _own(first, step.events, writer, plan.writers))
        else:
            due_ns = _poisson_ns(step, _poisson_count(step, first, writer, plan.writers, rng), rng)
        due_ns += round(begin_s * _SECOND_NS)
        parts.append(due_ns)
        begin_s, first = begin_s + step.length_s, first + step.events
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def slice_offsets_ns(plan: TrialPlan, phase: int, writer: int, slice_: int) -> NDArray[np.int64]:
    """Return the slice's part of `phase_offsets_ns`, still from the start of the phase; row numbers are sequences."""
    due_ns = phase_offsets_ns(plan, phase, writer)
    cuts = slice_cuts(plan, phase, due_ns)
    return due_ns[cuts[slice_] : cuts[slice_ + 1]]


def slice_counts(plan: TrialPlan, phase: int, writer: int) -> NDArray[np.int64]:
    """Return how many events the writer is to offer in each slice of the phase; shape (slices,)."""
    return np.diff(slice_cuts(plan, phase, phase_offsets_ns(plan, phase, writer)))


def slice_cuts(plan: TrialPlan, phase: int, due_ns: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return where slices begin and end among a writer's events of a phase; shape (slices + 1,)."""
    slices = plan.phases[phase].slices
    inner = np.searchsorted(due_ns, np.arange(1, slices, dtype=np.int64) * SLICE_NS, side="left")
    return np.concatenate(([0], inner, [due_ns.size])).astype(np.int64)


def slice_end_ns(plan: TrialPlan, phase: int, slice_: int) -> int:
    """Return where the slice ends, ns from the start of the phase."""
    return min((slice_ + 1) * SLICE_NS, round(plan.phases[phase].length_s * _SECOND_NS))


def most_rows(plan: TrialPlan, phase: int, slice_: int) -> int:
    """Return how many operations one attempt of a writer may offer in a slice of closed loop, or in an invocation."""
    if (invoked := plan.phases[phase].invoked) is not None:
        return invoked.operations
    length_s = slice_end_ns(plan, phase, slice_) / _SECOND_NS - slice_ * SLICE_NS / _SECOND_NS
    return max(1, plan.kept_operations(length_s) // plan.writers)


def _own(first: int, events: int, writer: int, writers: int) -> range:
    # Places in the step (0 = its first event) of the writer's events; `first` counts those of the steps before.
    return range((writer - first) % writers, events, writers)


def _constant_ns(step: LoadStep, places: range) -> NDArray[np.int64]:
    # In one array: the analysis works a schedule out again wherever it needs it.
    due_ns = np.arange(places.start, places.stop, places.step, dtype=np.float64)
    due_ns *= _SECOND_NS / step.rate_per_s
    return np.rint(due_ns, out=due_ns).astype(np.int64)


def _poisson_count(step: LoadStep, first: int, writer: int, writers: int, rng: np.random.Generator) -> int:
    if step.count is not None:
        return len(_own(first, step.count, writer, writers))
    return int(rng.poisson(step.rate_per_s / writers * step.length_s))


def _poisson_ns(step: LoadStep, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    due_ns = (rng.random(count) * (step.length_s * _SECOND_NS)).astype(np.int64)
    due_ns.sort()
    return due_ns


def think_times_ns(mean_s: float, distribution: ThinkTime, seed: tuple[int, ...]) -> Iterator[int]:
    """
    Yield the pauses before a client's first, second... operation, without end.

    Before the first, constant pauses are cut to a random part: clients that begin together would otherwise stay
    together, and offer bursts. Exponential ones need no cut, having no memory. Without a pause, all begin together.

    Source:
        Ross, Stochastic Processes (1996), section 3.5 (residual life of a stationary renewal process).
    """
    rng = np.random.default_rng(seed)
    mean_ns = mean_s * _SECOND_NS
    if distribution == "constant":
        return itertools.chain([int(rng.random() * mean_ns)], itertools.repeat(round(mean_ns)))
    blocks = (rng.exponential(mean_ns, _PAUSES).astype(np.int64).tolist() for _ in itertools.count())
    return itertools.chain.from_iterable(blocks)
