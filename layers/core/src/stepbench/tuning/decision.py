"""
Whether a change of configuration pays before a phase: what is to come, and the cost-benefit analysis. Pure.

What phases ask of the store is the workload of each one's DAG, and for how long.

Published are B = sum over k in [0, T_L] of H(W(k), C(k)), called the benefit, and C = sum over the M nodes of
H(W(t_k), C_k) x T_r, called the cost: H a throughput, T_L the look-ahead, T_r the time for which a node is away. As
printed B is all that is served meanwhile, with any configuration, and not what is won by the new one. So what is
compared here is B_new - B_old > C: what the new configuration would serve beyond the old one in the look-ahead, with
what it does not serve while the nodes are started anew, one after the other. C_k is the new configuration: B_new has
counted it as serving during that time, too.

A change that needs no restart costs as well: load waits until it is done, so T_r is its time then.

Source:
    Shankar et al. (2023), Asgard, section 4.1, after Mahgoub et al. (2019), SOPHIA, USENIX ATC '19.
"""

from __future__ import annotations

import math
import statistics
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from stepbench.contracts.tuning import Expected, StoreWorkload, TuningDecision
from stepbench.tuning.models import Throughput, needs_restart
from stepbench.workload.expected_mix import expected_mix

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stepbench.contracts.dataflow.dag import Dag
    from stepbench.contracts.phase import Phase
    from stepbench.contracts.trial import TrialFields
    from stepbench.contracts.tuning import CassandraConfiguration, TunedModel

    Mode = Literal["static", "adaptive"]
    Change = tuple[CassandraConfiguration | None, CassandraConfiguration | None]
    """The old configuration and the new one; None is the released one."""


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


NO_OTHER = "the model has no other configuration whose gain has held"
NOTHING_COMES = "no DAG that is to come passes anything on"
AS_GIVEN = "as the plan sets it, once, before the first phase; no model was asked"


class Moment(NamedTuple):
    """When a decision is taken: the phase before which it is, that phase's DAG, and the time in ns since the epoch."""

    phase: str
    dag: str
    now_ns: int


def within(ahead: Sequence[Expected], look_ahead_s: float) -> tuple[Expected, ...]:
    """Return what is expected within the look-ahead, the last stretch of it cut."""
    found, left_s = [], look_ahead_s
    for each in ahead:
        if left_s <= 0:
            break
        found.append(Expected(workload=each.workload, duration_s=min(each.duration_s, left_s)))
        left_s -= each.duration_s
    return tuple(found)


class Analyser:
    """Compares configurations of one model, on a store of so many nodes that are reconfigured one after the other."""

    def __init__(self, model: TunedModel, nodes: int = 1) -> None:
        self._model = model
        self._nodes = nodes
        self._throughput = Throughput(model.points)

    def benefit(self, ahead: Sequence[Expected], configuration: CassandraConfiguration | None) -> float:
        """Return B, in requests: what would be served of what is expected."""
        return sum(self._throughput.per_s(each.workload, configuration) * each.duration_s for each in ahead)

    def cost(
        self, ahead: Sequence[Expected], old: CassandraConfiguration | None, new: CassandraConfiguration | None
    ) -> float:
        """Return C, in requests: what is not served while one node after the other is away."""
        away_s = self.away_s(old, new)
        during = (_workload_at(ahead, number * away_s) for number in range(self._nodes))
        return sum(self._throughput.per_s(each, new) * away_s for each in during)

    def away_s(self, old: CassandraConfiguration | None, new: CassandraConfiguration | None) -> float:
        """Return T_r of a change."""
        if old == new:
            return 0.0
        return self._model.restart_s if needs_restart(old, new) else self._model.live_s

    def adaptive(self, moment: Moment, ahead: Sequence[Expected], old: CassandraConfiguration | None) -> TuningDecision:
        """Decide for the configuration that wins most, if one wins anything."""
        if not ahead:
            return _unweighed(moment, ahead, (old, old), "adaptive", NOTHING_COMES)

        def won(new: CassandraConfiguration | None) -> float:
            return self.benefit(ahead, new) - self.cost(ahead, old, new)

        others = [each for each in self._model.candidates if each != old]
        new = max(others, key=won, default=old)
        pays = bool(others) and won(new) > self.benefit(ahead, old)
        return self._decision(moment, ahead, (old, new), "adaptive", pays=pays)

    def static(self, moment: Moment, ahead: Sequence[Expected], old: CassandraConfiguration | None) -> TuningDecision:
        """Decide once, at any cost, for the best for what is expected."""
        if not ahead:
            return _unweighed(moment, ahead, (old, old), "static", NOTHING_COMES)
        new = max(self._model.candidates, key=lambda each: self.benefit(ahead, each))
        return self._decision(moment, ahead, (old, new), "static", pays=new != old)

    def _decision(
        self, moment: Moment, ahead: Sequence[Expected], change: Change, mode: Mode, *, pays: bool
    ) -> TuningDecision:
        old, new = change
        old_benefit, new_benefit, cost = self.benefit(ahead, old), self.benefit(ahead, new), self.cost(ahead, old, new)
        reason = _reason(new_benefit - old_benefit, cost, mode, same=old == new)
        update = {
            "nodes": self._nodes,
            "old_per_s": self._throughput.per_s(ahead[0].workload, old),
            "new_per_s": self._throughput.per_s(ahead[0].workload, new),
            "old_benefit": old_benefit,
            "new_benefit": new_benefit,
            "cost": cost,
            "reconfiguration_s": self.away_s(old, new),
            "reconfigure": pays,
        }
        return TuningDecision.model_validate({**vars(_unweighed(moment, ahead, change, mode, reason)), **update})


def as_given(
    moment: Moment, ahead: Sequence[Expected], old: CassandraConfiguration | None, given: CassandraConfiguration
) -> TuningDecision:
    """Return the decision for a configuration that the plan sets itself: no model says what it brings."""
    return _unweighed(moment, ahead, (old, given), "static", AS_GIVEN)


def _unweighed(moment: Moment, ahead: Sequence[Expected], change: Change, mode: Mode, reason: str) -> TuningDecision:
    """Return the decision on a change from an old configuration to a new one of which nothing was computed."""
    old, new = change
    return TuningDecision(
        phase=moment.phase,
        dag=moment.dag,
        decided_ns=moment.now_ns,
        mode=mode,
        ahead=tuple(ahead),
        old=old,
        new=new,
        nodes=1,
        old_per_s=0,
        new_per_s=0,
        old_benefit=0,
        new_benefit=0,
        cost=0,
        reconfiguration_s=0,
        reconfigure=new != old,
        reason=reason,
    )


def _workload_at(ahead: Sequence[Expected], at_s: float) -> StoreWorkload:
    """Return the workload of a moment of the look-ahead; after its end the last one."""
    end_s = 0.0
    for each in ahead:
        end_s += each.duration_s
        if at_s < end_s:
            return each.workload
    return ahead[-1].workload


def _reason(won: float, cost: float, mode: Mode, *, same: bool) -> str:
    if same:
        return NO_OTHER if mode == "adaptive" else "it has the configuration that is asked for"
    if mode == "static":
        return f"once, before the first phase; {won:,.0f} requests more are expected"
    verb = "is more than" if won > cost else "is not more than"
    return f"B_new - B_old = {won:,.0f} requests {verb} C = {cost:,.0f}"
