"""The whole of a tuning: a search for each workload, what a change takes, confirmation on fresh starts, the model."""

from __future__ import annotations

import datetime as dt
import os
import platform
import statistics
import time
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from stepbench.contracts.tuned import ModelPoint, TunedModel
from stepbench.digits import counted
from stepbench.experiments.dataflow.report.words import format_configuration
from stepbench.tuning.ranges import advised, ranges_for
from stepbench.tuning.throughput import Throughput
from stepbench_tools.local.tuning.evaluating import Pace, Pair
from stepbench_tools.tuning.confirming import confirm
from stepbench_tools.tuning.search import BUDGET, Evaluation, search

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from stepbench.contracts.tuned import Confirmation, StoreWorkload
    from stepbench.contracts.tuning import CassandraConfiguration, Compaction
    from stepbench_tools.local.tuning.nodes import Fleet
    from stepbench_tools.tuning.search import Searched

STARTS, RESTARTS, CROSSED = 20, 3, 2
"""Fresh starts that confirm; how often T_r is measured; evaluations of a found configuration under other workloads."""
_OTHER: dict[Compaction, Compaction] = {"LCS": "STCS", "STCS": "LCS", "UCS": "STCS", "TWCS": "STCS"}
_MOST_VALUES = 50


class Tuning(NamedTuple):
    """What is asked for."""

    name: str
    workloads: tuple[StoreWorkload, ...]
    evaluations: int = BUDGET
    starts: int = STARTS
    seed: int = 7
    pace: Pace = Pace()


class Outage(NamedTuple):
    """T_r, in seconds: with a restart, and of a change of a node that goes on."""

    restart_s: float
    live_s: float


def tune(fleet: Fleet, asked: Tuning, said: Callable[[str], None]) -> TunedModel:
    """
    Search, confirm, and return the model.

    Raises:
        LocalEnvironmentError: a node did not come up.
        TargetUnavailableError: a request of the load failed, or a node did not take its configuration.
    """
    cores, pair = os.cpu_count() or 1, Pair(fleet, asked.pace, said)
    found: dict[StoreWorkload, Searched] = {}
    seen: dict[StoreWorkload, list[Evaluation]] = {}
    for workload in asked.workloads:
        said(f"searching for {workload_words(workload)}: {asked.evaluations} evaluations")
        found[workload] = _searched(fleet, pair, workload, asked, cores)
        seen[workload] = [*found[workload].explored, *found[workload].finals]
    for workload in asked.workloads:
        others = dict.fromkeys(each.best for other, each in found.items() if other != workload)
        seen[workload] += [pair.afresh(workload, each) for each in others for _ in range(CROSSED)]
    points = points_of(seen)
    outage = measure_outage(fleet, found[asked.workloads[0]].best)
    confirmations = [_confirmed(pair, workload, each, points, asked, said) for workload, each in found.items()]
    return TunedModel(
        name=asked.name,
        made_at=dt.datetime.now(dt.UTC).replace(microsecond=0),
        machine=f"{platform.machine()}, {cores} cores, {platform.system()}",
        provider=f"Cassandra {fleet.version} ({fleet.profile.name})",
        cores=cores,
        heap_mib=fleet.profile.heap_mib,
        restart_s=outage.restart_s,
        live_s=outage.live_s,
        points=points,
        confirmations=tuple(confirmations),
    )


def _searched(fleet: Fleet, pair: Pair, workload: StoreWorkload, asked: Tuning, cores: int) -> Searched:
    heap_mib = fleet.profile.heap_mib
    return search(
        ranges_for(cores, heap_mib),
        partial(pair.afresh, workload),
        first=[advised(cores, heap_mib)],
        budget=asked.evaluations,
        seed=asked.seed,
    )


def _confirmed(  # noqa: PLR0913, PLR0917 -- one search's all
    pair: Pair,
    workload: StoreWorkload,
    found: Searched,
    points: Sequence[ModelPoint],
    asked: Tuning,
    said: Callable[[str], None],
) -> Confirmation:
    said(f"confirming {format_configuration(found.best)} for {workload_words(workload)}: {asked.starts} fresh starts")
    starts = [pair.afresh(workload, found.best) for _ in range(asked.starts)]
    predicted = Throughput(points).per_s(workload, found.best)
    return confirm(workload, starts, found_gain=found.found_gain, predicted_per_s=predicted)


def points_of(seen: Mapping[StoreWorkload, Sequence[Evaluation]]) -> tuple[ModelPoint, ...]:
    """
    Return a model's points of all evaluations.

    A configuration's throughput is its gain of an evaluation times the released configuration's median over all of
    them: what else the machine did in the meantime is no part of it.
    """
    points = []
    for workload, evaluations in seen.items():
        released = [statistics.median(each.released_per_s) for each in evaluations]
        points.append(ModelPoint(workload=workload, configuration=None, per_s=tuple(released[:_MOST_VALUES])))
        gains: dict[CassandraConfiguration, list[float]] = {}
        for each in evaluations:
            gains.setdefault(each.configuration, []).append(each.gain * statistics.median(released))
        points += [
            ModelPoint(workload=workload, configuration=each, per_s=tuple(values[:_MOST_VALUES]))
            for each, values in gains.items()
        ]
    return tuple(points)


def measure_outage(fleet: Fleet, configuration: CassandraConfiguration, restarts: int = RESTARTS) -> Outage:
    """Return T_r: medians of changes to and from a configuration, on a node that has nothing else to do."""
    away_s, live_s = [], []
    live = configuration.model_copy(update={"compaction": _OTHER[configuration.compaction], "concurrent_writes": 24})
    with fleet.started(None) as node:
        spec = node.prepared(None)
        for _ in range(restarts):
            away_s.append(node.apply(spec, configuration).away_s)
            began_s = time.monotonic()
            node.apply(spec, live)
            live_s.append(time.monotonic() - began_s)
            away_s.append(node.apply(spec, None).away_s)
    return Outage(statistics.median(away_s), statistics.median(live_s))


def workload_words(workload: StoreWorkload) -> str:
    """Return a workload in a line."""
    clients = counted(workload.clients, "client")
    return f"{workload.read_share:.0%} gets, blobs of {workload.blob_bytes:,} bytes, {clients}"
