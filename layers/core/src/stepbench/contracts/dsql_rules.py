"""
What Aurora DSQL cannot take, however the plan is written: too many connections, and too many new ones a second.

The rate is a quota that nobody can have raised. A plan that would run into them measures its own refusals (SQLSTATE
53300 and 53400), so it is refused before it runs. Below them the cluster may still refuse, if others connect to it,
too: such operations are counted as FAILED.

Source:
    Aurora DSQL User Guide, "Cluster quotas and database limits".
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from stepbench.contracts.rule import Broken
from stepbench.contracts.target import DsqlTarget

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.contracts.phase import Phase
    from stepbench.contracts.plan import TrialPlan

MAX_CONNECTIONS = 10_000
NEW_CONNECTIONS_PER_S = 100
CONNECTION_BURST = 1_000
"""So many may be made at once; that allowance is refilled at the rate above."""
FASTEST_CONNECTION_S = 0.08
"""TCP, TLS, the token's check and one statement, in one region: published medians without reuse are 88 ms and above."""


def dsql_rules(trial: TrialPlan) -> Iterator[Broken]:
    """Connections of all writers together, as if nobody else connected to the cluster."""
    if isinstance(trial.target, DsqlTarget) and trial.workload is not None:
        yield from _held(trial)
        yield from _made(trial, reuse=trial.workload.reuse)


def _held(trial: TrialPlan) -> Iterator[Broken]:
    at_once = trial.writers * trial.max_in_flight
    if at_once > MAX_CONNECTIONS and any(phase.load for phase in trial.phases):
        message = f"times writers makes {at_once:,} connections, and a cluster has {MAX_CONNECTIONS:,} at most"
        yield Broken("max_in_flight", message, "Lower it, or writers.")


def _made(trial: TrialPlan, *, reuse: bool) -> Iterator[Broken]:
    """A phase's writers open their sessions together, before it; what they use up comes back while they load."""
    left = float(CONNECTION_BURST)
    for index, phase in enumerate(trial.phases):
        for opened, length_s in [(_sessions(trial, phase), phase.length_s)] if reuse else _rates(phase):
            lowest = left - opened if reuse else left + (NEW_CONNECTIONS_PER_S - opened) * length_s
            left = min(CONNECTION_BURST, lowest + (NEW_CONNECTIONS_PER_S * length_s if reuse else 0))
            if lowest < 0:
                field = "closed" if phase.closed else "load"
                yield Broken(f"phases[{index}].{field}", _too_many(), _remedy(phase, reuse=reuse))
                return


def _sessions(trial: TrialPlan, phase: Phase) -> int:
    return phase.closed.clients if phase.closed else min(trial.writers * trial.max_in_flight, phase.events)


def _rates(phase: Phase) -> list[tuple[float, float]]:
    """New connections a second at most, and for how many seconds."""
    if phase.closed is None:
        return [(step.rate_per_s, step.length_s) for step in phase.steps]
    rate = phase.closed.clients / (phase.closed.think_ms / 1_000 + FASTEST_CONNECTION_S)
    offered_s = math.inf if phase.closed.operations is None else phase.closed.operations / rate
    return [(rate, min(phase.closed.duration_s, offered_s))]


def _too_many() -> str:
    return (
        f"makes more new connections than a cluster takes: {NEW_CONNECTIONS_PER_S} a second, and "
        f"{CONNECTION_BURST:,} once beyond that"
    )


def _remedy(phase: Phase, *, reuse: bool) -> str:
    if reuse:
        return "Lower clients." if phase.closed else "Lower max_in_flight, or writers."
    fewer = "Lower clients or operations, raise think_ms" if phase.closed else "Lower rate_per_s, shorten the load"
    return f"{fewer}, or set workload.reuse: true."
