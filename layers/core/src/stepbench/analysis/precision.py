"""
How well a phase's quantile is known while its load goes on. Pure.

A look is made when the number of events due has grown by a quarter: so all looks together cost five times the last,
and there are few of them. To stop at the first interval that is narrow enough costs it some of its coverage;
`docs/measurement.md` says how much.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from stepbench.analysis.windows import NS_PER_S, MeasuredWindow
from stepbench.contracts.phase import Window
from stepbench.contracts.phase_documents import PrecisionLook
from stepbench.drivers.protocol import Outcome
from stepbench.records.sent import UNRECORDED

if TYPE_CHECKING:
    from stepbench.contracts.measures import Estimate
    from stepbench.contracts.phase import Phase
    from stepbench.contracts.plan import TrialPlan
    from stepbench.records.join import Joined

QUANTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p999": 0.999}
SETTLE_S = 15.0
"""Events that are due are looked at so much later: a flush interval of the writers, and time for the file and for
arrivals. What is still not there then counts as missing: left out, it would make the tail look shorter."""
PENDING_S = 60.0
GROWTH = 1.25
SHORTEST_PAUSE_S = 5.0


def look(joined: Joined, plan: TrialPlan, phase: int, start_ns: int, now_ns: int) -> PrecisionLook:
    """
    The phase's quantile from all events that were due `SETTLE_S` before now.

    An event without a row that was due in the last `PENDING_S` is perhaps waiting for its answer, or its row is still
    to come: it counts as acknowledged and not arrived. An older one is left out, as it will be by the analysis.

    Args:
        joined: of the trial, as far as its records go.
        plan: the trial's, of which `phase` has an `until`.
        phase: its number.
        start_ns: its time zero.
        now_ns: when the records were about to be read.
    """
    cut_ns = now_ns - round(SETTLE_S * NS_PER_S)
    since_ns = now_ns - round(PENDING_S * NS_PER_S)
    pending = (joined.outcome == UNRECORDED) & ~joined.arrived & (joined.t0_ns >= since_ns)
    waiting = replace(joined, outcome=np.where(pending, np.uint8(Outcome.OK), joined.outcome))
    planned = plan.phases[phase]
    span = Window(name=planned.name, from_s=0, to_s=min((cut_ns - start_ns) / NS_PER_S, planned.length_s))
    window = MeasuredWindow(waiting, plan, start_ns, phase, span, number=0)
    sample = window.sample(window.latency_ms())
    if planned.until is None:
        message = f"phase {planned.name} has no until"
        raise ValueError(message)
    width = relative_width(sample.estimate(QUANTILES[planned.until.metric]))
    return PrecisionLook(at_s=span.to_s, events=sample.finite.size, relative_width=width)


def relative_width(estimate: Estimate) -> float | None:
    """The whole interval over the quantile; None where one of them is missing."""
    if not estimate.value or estimate.low is None or estimate.high is None:
        return None
    return (estimate.high - estimate.low) / abs(estimate.value)


def first_look_s(phase: Phase) -> float:
    """When the first look is due, in seconds from the phase's start."""
    return phase.shortest_s + SETTLE_S


def next_look_s(phase: Phase, at_s: float) -> float:
    """
    When the look after one at the events of `at_s` seconds is due, in seconds from the phase's start.

    By the schedule and not by what came of it: a store that answers nothing is looked at as often as another.
    """
    more_s = (GROWTH - 1) * phase.events_by(at_s) / phase.steps[-1].rate_per_s
    return at_s + max(more_s, SHORTEST_PAUSE_S) + SETTLE_S
