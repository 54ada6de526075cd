"""
Cassandra as released, tuned once, and tuned while it runs, under a workload that changes twice.

    python -m benchmarks.tuning [--rounds N] [--quick] [--model FILE] [--stretch SECONDS]

First `stepbench tune`'s search and confirmation on fresh starts, or the model of an earlier one (`--model`). Then
rounds, in each of which a fresh node of either kind serves the model's first workload, its last, and the first again,
one stretch each (of ours broadcast, scatter and broadcast): as released; with the configuration found for the first;
and reconfigured where the model says that it pays. Throughput is requests by the time from the first stretch's begin
to the last one's end, reconfigurations included. Where the model advises against one, it is done all the same on
another node, to see whether the advice was right.

Load and server share all cores: a store that may have only one has no use for most of the five parameters.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import psutil
from benchmarks import command, machine, thread_times
from benchmarks.result import Case, Figure, Goal, Measure, figures_of

from stepbench.contracts.tuning import Expected, StoreWorkload, TunedModel
from stepbench.errors import LocalEnvironmentError
from stepbench.experiments.dataflow.report.words import format_configuration
from stepbench.tuning.decision import Analyser, Moment
from stepbench.tuning.models import left_out
from stepbench_tools.local.paths import find_paths
from stepbench_tools.local.stores.cassandra.configuration import as_released, find_installation, jars_of
from stepbench_tools.local.tuning.nodes import Fleet
from stepbench_tools.local.tuning.tune import Pace, Pair, Tuning, tune, workload_words
from stepbench_tools.tuning import kept_share

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepbench.contracts.plan import TrialSpec
    from stepbench.contracts.tuning import CassandraConfiguration, TuningDecision
    from stepbench_tools.local.tuning.nodes import TunedNode

QUESTION = "Does it pay to tune Cassandra for what DAGs ask of it, once or while it runs?"
SCATTER = StoreWorkload(read_share=0.5, blob_bytes=131_072, clients=8)
BROADCAST = StoreWorkload(read_share=0.875, blob_bytes=131_072, clients=8)
"""A broadcast to seven tasks has seven reads a write."""
STRETCH_S, WARM_UP_S, QUICK_STRETCH_S = 20.0, 15.0, 3.0
KEPT = 0.95
_QUICK = Tuning("quick", (BROADCAST, SCATTER), evaluations=3, starts=1)
_WHOLE = Tuning("local", (BROADCAST, SCATTER), evaluations=20)


class Way(NamedTuple):
    """How a node comes to its configuration. at_start: before the round. analyser: decides at each change."""

    at_start: CassandraConfiguration | None
    analyser: Analyser | None = None


class Served(NamedTuple):
    """The throughput of one configuration in a round, and the decisions at its changes of workload."""

    per_s: float
    decisions: tuple[TuningDecision, ...]


def serve(fleet: Fleet, way: Way, workloads: Sequence[StoreWorkload], stretch_s: float) -> Served:
    """Have a fresh node serve a stretch of each; what is under way has ended before it is reconfigured."""
    with fleet.started(way.at_start) as node:
        spec, now, requests, decisions = node.prepared(way.at_start), way.at_start, 0.0, []
        node.per_s(spec, workloads[0], WARM_UP_S)
        began_s = time.monotonic()
        for number, workload in enumerate(workloads):
            if way.analyser:
                ahead = tuple(Expected(workload=each, duration_s=stretch_s) for each in workloads[number:])
                decided = way.analyser.adaptive(Moment(str(number), "dag", time.time_ns()), ahead, now)
                decisions.append(decided)
                if decided.reconfigure:
                    node.apply(spec, decided.new)
                now = decided.configured
            requests += node.per_s(spec, workload, stretch_s) * stretch_s
        return Served(requests / (time.monotonic() - began_s), tuple(decisions))


def profile_of(fleet: Fleet, workload: StoreWorkload, counted_s: float) -> str:
    """Return where the processor time goes, with the configuration as released."""
    with fleet.started(None) as node:
        spec = node.prepared(None)
        node.per_s(spec, workload, WARM_UP_S)
        before, own_s = thread_times.thread_times_s(node.node.pid), time.process_time()
        node.per_s(spec, workload, counted_s)
        spent = thread_times.words(before, thread_times.thread_times_s(node.node.pid), time.process_time() - own_s)
        return f"Processor time as released, {workload_words(workload)}: {spent}."


def against_advice(fleet: Fleet, decided: TuningDecision, stretch_s: float) -> tuple[float, float]:
    """Return the throughput of a stretch as it is configured, and after what was advised against."""
    workload = decided.ahead[0].workload
    with fleet.started(decided.old) as node:
        spec = node.prepared(decided.old)
        node.per_s(spec, workload, WARM_UP_S)
        stayed = node.per_s(spec, workload, stretch_s)
        return stayed, _reconfigured(node, spec, decided, stretch_s)


def _reconfigured(node: TunedNode, spec: TrialSpec, decided: TuningDecision, stretch_s: float) -> float:
    began_s = time.monotonic()
    node.apply(spec, decided.new)
    served = node.per_s(spec, decided.ahead[0].workload, stretch_s) * stretch_s
    return served / (time.monotonic() - began_s)


def cases_of_model(model: TunedModel) -> tuple[Case, ...]:
    """Return what the search and the fresh starts have found."""
    outage = Case(
        name="T_r",
        figures=(
            Figure(name="with a restart", unit="s", ours=(model.restart_s,)),
            Figure(name="while it runs", unit="s", ours=(model.live_s,)),
        ),
    )
    return (outage, *(case for each in model.confirmations for case in _confirmed(model, each.workload)))


def _confirmed(model: TunedModel, workload: StoreWorkload) -> tuple[Case, ...]:
    (found,) = (each for each in model.confirmations if each.workload == workload)
    kept = kept_share(found)
    figures = [Figure(name="gain on fresh starts", unit="x", ours=found.gains)]
    if kept is not None:
        goal = Goal(of="value", at_least=KEPT)
        figures.append(Figure(name="kept of the gain that was found", unit="of it", ours=(kept,), goal=goal))
    figures.append(
        Figure(name="predicted throughput", unit="1/s", ours=(found.predicted_per_s,), peer=(found.measured_per_s,))
    )
    return (Case(name=workload_words(workload), peer="as released; predicted: as measured", figures=tuple(figures)),)


def notes_of_model(model: TunedModel) -> tuple[str, ...]:
    """Return each confirmed configuration, and how far predictions of what was left out are off."""
    off = sorted(
        abs(predicted / sorted(each.per_s)[len(each.per_s) // 2] - 1) for each, predicted in left_out(model.points)
    )
    found = tuple(
        f"{workload_words(each.workload)}: {format_configuration(each.configuration)}; "
        f"{'its gain held' if each.holds else 'no gain that is sure'} on {each.starts} fresh starts."
        for each in model.confirmations
    )
    return (
        *found,
        f"A configuration that the model has not seen is predicted within {off[len(off) // 2]:.1%} (median).",
    )


def measure(asked: argparse.Namespace) -> command.Found:
    """Tune, or take the model that is given; then measure the ways in turns."""
    try:
        installation = find_installation(jars_of(find_paths(os.environ, Path.cwd())))
    except LocalEnvironmentError as error:
        raise command.MissingComparatorError(str(error)) from error
    profile = as_released(psutil.virtual_memory().available // 2**20 // 3)
    with machine.shared(), tempfile.TemporaryDirectory(prefix="stepbench-tuning-") as folder:
        fleet = Fleet(Path(folder), installation, profile)
        model = _model(asked, fleet)
        stretch_s = QUICK_STRETCH_S if asked.quick else asked.stretch
        first, last = model.confirmations[0], model.confirmations[-1]
        changes = (first.workload, last.workload, first.workload)
        kinds = (Way(None), Way(first.configuration), Way(None, Analyser(model)))
        ways = [partial(serve, fleet, way, changes, stretch_s) for way in kinds]
        served = machine.calmest(asked.rounds, ways)
        refused = [each for each in served[0][2].decisions if not each.reconfigure and each.new != each.old]
        advice = [against_advice(fleet, refused[0], stretch_s) for _ in range(asked.rounds)] if refused else []
        profiles = tuple(profile_of(fleet, each, stretch_s) for each in dict.fromkeys(changes))
    return command.Found(_cases(model, served, advice), (*_notes(model, served[0][2].decisions), *profiles))


def _model(asked: argparse.Namespace, fleet: Fleet) -> TunedModel:
    if asked.model:
        return TunedModel.model_validate_json(asked.model.read_bytes())
    pair = Pair(fleet, Pace(2.0, 1, 1.0) if asked.quick else Pace())
    model = tune(pair, _QUICK if asked.quick else _WHOLE, partial(print, flush=True))
    asked.tools.mkdir(parents=True, exist_ok=True)
    (asked.tools / "tuned.json").write_text(model.model_dump_json(indent=1), encoding="utf-8")
    return model


def _cases(model: TunedModel, served: list[tuple[Served, ...]], advice: list[tuple[float, float]]) -> tuple[Case, ...]:
    per_s = Measure("requests a second", "1/s")
    changing = [
        Case(
            name=f"a workload that changes twice, {name}",
            peer="as released",
            figures=figures_of([per_s], [((each[place].per_s,), (each[0].per_s,)) for each in served]),
        )
        for place, name in ((1, "static"), (2, "adaptive"))
    ]
    stayed = [
        Case(
            name="left alone, as advised",
            peer="reconfigured against the advice",
            figures=figures_of(
                [Measure("requests a second", "1/s", Goal(at_least=1))], [((own,), (other,)) for own, other in advice]
            ),
        )
    ]
    return (*cases_of_model(model), *changing, *(stayed if advice else ()))


def _notes(model: TunedModel, decisions: tuple[TuningDecision, ...]) -> tuple[str, ...]:
    told = tuple(
        f"Decision before stretch {number + 1}: {format_configuration(each.old)} to {format_configuration(each.new)}: "
        f"{'done' if each.reconfigure else 'not done'}; {each.reason}."
        for number, each in enumerate(decisions)
    )
    return (f"{model.provider}.", *notes_of_model(model), *told)


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", type=Path, help="take this model, and search for none")
    parser.add_argument("--stretch", type=float, default=STRETCH_S, help=f"seconds a workload (default {STRETCH_S:g})")


if __name__ == "__main__":
    command.run("tuning", QUESTION, measure, _options)
