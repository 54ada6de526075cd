"""What a window's executions cost: performance per dollar, execution by execution."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stepbench.clock import covered
from stepbench.contracts.dataflow.result import DataflowCost
from stepbench.experiments.dataflow.prices import WindowUsage, window_costs
from stepbench.stats.intervals import Series

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.costs.standing import Deployment
    from stepbench.experiments.dataflow.analysis.windows import WindowTally

NS_PER_S = 1e9


class Billing(NamedTuple):
    """Whose prices count: the stack's, the store's name, and whether its server is not the stack's."""

    deployment: Deployment
    store: str
    own_server: bool


def dataflow_costs(tally: WindowTally, billing: Billing) -> Iterator[DataflowCost]:
    """
    Yield what a window's executions cost, by each price table, with and without idle hours.

    One that has not arrived performs nothing, whatever it has cost: its performance per dollar is 0.
    """
    if not tally.usages:
        return
    usage = WindowUsage(tuple(tally.usages), busy_s(tally.spans_ns), max(tally.length_s, _until_last_s(tally)))
    for cost in window_costs(usage, billing.store, billing.deployment, own_server=billing.own_server):
        usd = np.array(cost.usd)
        latency_s = np.array([one.latency_s for one in tally.usages])
        yield DataflowCost(
            dag=tally.dag.name,
            window=tally.result.name,
            phase=tally.result.phase,
            prices=cost.prices,
            idle=cost.idle,
            usd=Series(usd).mean(),
            parts_usd=cost.parts,
            perf_per_usd=Series(np.append(1 / latency_s / usd, np.zeros(tally.missing))).quantile(0.5),
            modelled=cost.modelled,
        )


def busy_s(spans_ns: list[tuple[int, int]]) -> float:
    """Return for how long any of some spans went on."""
    return covered(spans_ns) / NS_PER_S


def _until_last_s(tally: WindowTally) -> float:
    """Return how long it was from the window's begin to its last execution's end."""
    return (max(end for _, end in tally.spans_ns) - tally.begin_ns) / NS_PER_S
