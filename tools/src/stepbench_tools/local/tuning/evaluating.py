"""One configuration beside the released one: in turns on two nodes, each second round begun by the other."""

from __future__ import annotations

import contextlib
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

from stepbench.errors import LocalEnvironmentError, TargetUnavailableError
from stepbench.experiments.dataflow.report.words import format_configuration
from stepbench_tools.tuning.search import Evaluation

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepbench.contracts.plan import TrialSpec
    from stepbench.contracts.tuned import StoreWorkload
    from stepbench.contracts.tuning import CassandraConfiguration
    from stepbench_tools.local.tuning.nodes import Fleet, TunedNode


class Pace(NamedTuple):
    """How long each node is warmed up after its start, and how many turns of how long each then has."""

    warm_up_s: float = 15.0
    turns: int = 3
    counted_s: float = 5.0


class Side(NamedTuple):
    """A node with a table that is ready for load."""

    node: TunedNode
    spec: TrialSpec


class Pair:
    """
    A released node and one with a configuration, both started anew for each evaluation.

    One that had been up for longer would be faster for that alone: its code has been compiled. Only one of the two runs
    at any time: the other is paused, since otherwise its compactions would go on at the cost of the one that is
    measured, and a configuration that merges more would seem to win.
    """

    def __init__(self, fleet: Fleet, pace: Pace, said: Callable[[str], None]) -> None:
        self._fleet = fleet
        self._pace = pace
        self._said = said

    def afresh(self, workload: StoreWorkload, configuration: CassandraConfiguration) -> Evaluation:
        """
        Start both, at once, and compare them; once more where that failed, since a tuning takes hours.

        Raises:
            LocalEnvironmentError: a node did not come up, twice.
            TargetUnavailableError: a request failed, or a node did not take its configuration, likewise.
        """
        try:
            return self._started_and_compared(workload, configuration)
        except (LocalEnvironmentError, TargetUnavailableError) as error:
            self._said(f"{format_configuration(configuration)}: once more: {error}")
            return self._started_and_compared(workload, configuration)

    def _started_and_compared(self, workload: StoreWorkload, configuration: CassandraConfiguration) -> Evaluation:
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
        found = Evaluation(configuration, tuple(one for one, _ in rounds), tuple(other for _, other in rounds))
        self._said(f"{format_configuration(configuration)}: {found.gain - 1:+.1%}")
        return found

    def _round(self, sides: tuple[Side, Side], workload: StoreWorkload, turn: int) -> tuple[float, float]:
        found = [0.0, 0.0]
        for place in (0, 1) if turn % 2 == 0 else (1, 0):
            found[place] = _alone(sides[place], sides[1 - place], workload, self._pace.counted_s)
        return found[0], found[1]


def _alone(side: Side, other: Side, workload: StoreWorkload, counted_s: float) -> float:
    """Return the throughput of one of two nodes while the other is paused."""
    with other.node.paused():
        return side.node.per_s(side.spec, workload, counted_s)
