"""The whole of a tuning: a search for each workload, what a change takes, confirmation on fresh starts, the model."""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, Protocol

from stepbench.contracts.tuning import ModelPoint, TunedModel
from stepbench.digits import counted
from stepbench.errors import LocalEnvironmentError, TargetUnavailableError
from stepbench.experiments.dataflow.report.words import format_configuration
from stepbench.tuning.models import Throughput, advised, ranges_for, this_machine
from stepbench_tools.tuning import BUDGET, Evaluation, confirm, search

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from stepbench.contracts.plan import TrialSpec
    from stepbench.contracts.tuning import CassandraConfiguration, Compaction, Confirmation, StoreWorkload
    from stepbench_tools.local.tuning.nodes import Fleet, TunedNode
    from stepbench_tools.tuning import Searched

STARTS, RESTARTS, CROSSED = 20, 3, 2
"""Fresh starts that confirm; how often T_r is measured; evaluations of a found configuration under other workloads."""
_OTHER: dict[Compaction, Compaction] = {"LCS": "STCS", "STCS": "LCS", "UCS": "STCS", "TWCS": "STCS"}
_MOST_VALUES = 50


class Pace(NamedTuple):
    """How long each node is warmed up after its start, and how many turns of how long each then has."""

    warm_up_s: float = 15.0
    turns: int = 3
    counted_s: float = 5.0


class Tuning(NamedTuple):
    """What is asked for."""

    name: str
    workloads: tuple[StoreWorkload, ...]
    evaluations: int = BUDGET
    starts: int = STARTS
    seed: int = 7


class Side(NamedTuple):
    """A node with a table that is ready for load."""

    node: TunedNode
    spec: TrialSpec


class Machine(NamedTuple):
    """What a tuned node runs on, and what it is: a model's fields of these names."""

    name: str
    provider: str
    cores: int
    heap_mib: int


class Bench(Protocol):
    """
    What compares configurations with the released one, each on a node that was started anew.

    Both methods raise LocalEnvironmentError or TargetUnavailableError where a node did not come up, did not take its
    configuration, or failed a request.
    """

    @property
    def machine(self) -> Machine:
        """Return where it is done."""
        ...

    @property
    def blob_bytes(self) -> Mapping[str, int]:
        """Return sizes of objects as they were measured, by the DAG's name."""
        ...

    def compare(self, workload: StoreWorkload, configuration: CassandraConfiguration) -> Evaluation:
        """Evaluate a configuration."""
        ...

    def outages(self, configuration: CassandraConfiguration) -> tuple[float, float]:
        """Return T_r in seconds, with a restart and of a live change."""
        ...


class Pair:
    """
    A released node and one with a configuration, both started anew for each evaluation.

    One that had been up for longer would be faster for that alone: its code has been compiled. Only one of the two runs
    at any time: the other is paused, since otherwise its compactions would go on at the cost of the one that is
    measured, and a configuration that merges more would seem to win.
    """

    blob_bytes: Mapping[str, int] = MappingProxyType({})
    """See `Bench`: blobs are as large as the workload says."""

    def __init__(self, fleet: Fleet, pace: Pace) -> None:
        self._fleet = fleet
        self._pace = pace

    @property
    def machine(self) -> Machine:
        """See `Bench`."""
        profile = self._fleet.profile
        provider = f"Cassandra {self._fleet.version} ({profile.name})"
        return Machine(this_machine(), provider, os.cpu_count() or 1, profile.heap_mib)

    def outages(self, configuration: CassandraConfiguration) -> tuple[float, float]:
        """See `Bench`."""
        return measure_outages(self._fleet, configuration)

    def compare(self, workload: StoreWorkload, configuration: CassandraConfiguration) -> Evaluation:
        """See `Bench`."""
        with contextlib.ExitStack() as stack:
            with ThreadPoolExecutor(2) as pool:
                nodes = [pool.submit(stack.enter_context, self._fleet.started(each)) for each in (None, configuration)]
            return self._compared(nodes[0].result(), nodes[1].result(), workload, configuration)

    def _compared(
        self, released: TunedNode, node: TunedNode, workload: StoreWorkload, configuration: CassandraConfiguration
    ) -> Evaluation:
        sides = Side(released, released.prepared(None)), Side(node, node.prepared(configuration))
        for each, other in (sides, sides[::-1]):
            _alone(each, other, workload, self._pace.warm_up_s)
        rounds = [self._round(sides, workload, turn) for turn in range(self._pace.turns)]
        return Evaluation(configuration, tuple(one for one, _ in rounds), tuple(other for _, other in rounds))

    def _round(self, sides: tuple[Side, Side], workload: StoreWorkload, turn: int) -> tuple[float, float]:
        found = [0.0, 0.0]
        for place in (0, 1) if turn % 2 == 0 else (1, 0):
            found[place] = _alone(sides[place], sides[1 - place], workload, self._pace.counted_s)
        return found[0], found[1]


def _alone(side: Side, other: Side, workload: StoreWorkload, counted_s: float) -> float:
    """Return the throughput of one of two nodes while the other is paused."""
    with other.node.paused():
        return side.node.per_s(side.spec, workload, counted_s)


def tune(bench: Bench, asked: Tuning, said: Callable[[str], None]) -> TunedModel:
    """Search, confirm, and return the model; raises as `Bench` does."""
    machine, afresh = bench.machine, partial(_afresh, bench, said)
    found: dict[StoreWorkload, Searched] = {}
    seen: dict[StoreWorkload, list[Evaluation]] = {}
    for workload in asked.workloads:
        said(f"searching for {workload_words(workload)}: {asked.evaluations} evaluations")
        found[workload] = search(
            ranges_for(machine.cores, machine.heap_mib),
            partial(afresh, workload),
            first=[advised(machine.cores, machine.heap_mib)],
            budget=asked.evaluations,
            seed=asked.seed,
        )
        seen[workload] = [*found[workload].explored, *found[workload].finals]
    for workload in asked.workloads:
        others = dict.fromkeys(each.best for other, each in found.items() if other != workload)
        seen[workload] += [afresh(workload, each) for each in others for _ in range(CROSSED)]
    points = points_of(seen)
    restart_s, live_s = bench.outages(found[asked.workloads[0]].best)
    confirmations = [_confirmed(afresh, workload, each, points, asked, said) for workload, each in found.items()]
    return TunedModel(
        name=asked.name,
        made_at=dt.datetime.now(dt.UTC).replace(microsecond=0),
        machine=machine.name,
        provider=machine.provider,
        cores=machine.cores,
        heap_mib=machine.heap_mib,
        restart_s=restart_s,
        live_s=live_s,
        blob_bytes=dict(bench.blob_bytes),
        points=points,
        confirmations=tuple(confirmations),
    )


def _afresh(
    bench: Bench, said: Callable[[str], None], workload: StoreWorkload, configuration: CassandraConfiguration
) -> Evaluation:
    """Evaluate a configuration; once more where that failed, since a tuning takes hours."""
    try:
        found = bench.compare(workload, configuration)
    except (LocalEnvironmentError, TargetUnavailableError) as error:
        said(f"{format_configuration(configuration)}: once more: {error}")
        found = bench.compare(workload, configuration)
    said(f"{format_configuration(configuration)}: {found.gain - 1:+.1%}")
    return found


def _confirmed(  # noqa: PLR0913, PLR0917 -- one search's all
    afresh: Callable[[StoreWorkload, CassandraConfiguration], Evaluation],
    workload: StoreWorkload,
    found: Searched,
    points: Sequence[ModelPoint],
    asked: Tuning,
    said: Callable[[str], None],
) -> Confirmation:
    said(f"confirming {format_configuration(found.best)} for {workload_words(workload)}: {asked.starts} fresh starts")
    starts = [afresh(workload, found.best) for _ in range(asked.starts)]
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


def measure_outages(
    fleet: Fleet, configuration: CassandraConfiguration, restarts: int = RESTARTS
) -> tuple[float, float]:
    """Return T_r in seconds, with a restart and of a live change: medians on a node that has nothing else to do."""
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
    return statistics.median(away_s), statistics.median(live_s)


def workload_words(workload: StoreWorkload) -> str:
    """Return a workload in a line."""
    clients = counted(workload.clients, "client")
    return f"{workload.read_share:.0%} gets, blobs of {workload.blob_bytes:,} bytes, {clients}"
