"""
How long a run takes from StartExecution to its report beyond its load, and in which states that time goes.

    python -m benchmarks.overhead [--rounds N] [--home DIRECTORY]

The whole embedded environment, as a user has it: emulator, stores, functions in processes of their own, on all cores.
Each round runs four short trials, one after the other, twice: once cold, with each function's sandboxes discarded
before (the emulator does so at any UpdateFunctionConfiguration), and once warm. A round is some two minutes. `--home`
keeps the environment for the next time. Times are those of the executions, and of the functions' REPORT lines, which
here include a cold start.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks import command
from benchmarks.result import Case, Figure, Goal

from stepbench.contracts.phase import PhaseSchedule
from stepbench.contracts.plan import Plan
from stepbench.planning import expand
from stepbench.records.formats.second_sources import PATTERN, parse_report
from stepbench.records.storage import layout
from stepbench_tools.local.environment import down
from stepbench_tools.local.executions import RUNNING, SUCCEEDED, Executions, RunSpec, new_run_id
from stepbench_tools.local.paths import Paths
from stepbench_tools.local.session import LocalSession, bring_up, open_session
from stepbench_tools.local.state import occupied

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator, Sequence

    from stepbench_tools.local.stack import Stack

QUESTION = "How long does a run take beyond its load, from StartExecution to the report?"
LOAD_S, RATE_PER_S = 5, 20
MOST_S_PER_TRIAL = 10
ROUNDS = 3
_LIMIT_S, _POLL_S = 300, 0.25
_ASIDE = frozenset({"ReceiveEvents", "WatchChanges", "CheckClock", "SweepTargets"})
"""Functions that run beside the states that a run waits for."""
_GROUP = "/aws/lambda/"


class Span(NamedTuple):
    """One invocation, in seconds since the execution began."""

    function: str
    begin_s: float
    end_s: float


class Timed(NamedTuple):
    """A run's times. beyond_s: from StartExecution to the end without load. ready_s: a writer's least time to spare."""

    trials: int
    beyond_s: float
    spans: tuple[Span, ...]
    ready_s: float

    def state_s(self, function: str) -> float:
        """Return the time of all invocations of a function, less the load where it is the writer's."""
        spent_s = sum(span.end_s - span.begin_s for span in self.spans if span.function == function)
        return spent_s - (LOAD_S * self.trials if function == "RunWriter" else 0)

    @property
    def between_s(self) -> float:
        """Return how long no state's function ran: Wait states, watchers that end, the state machines' own time."""
        busy_s = covered_s((span.begin_s, span.end_s) for span in self.spans if span.function not in _ASIDE)
        return self.beyond_s + LOAD_S * self.trials - busy_s


def covered_s(spans: Iterable[tuple[float, float]]) -> float:
    """Return how long at least one of the spans lasted."""
    total_s, reached_s = 0.0, 0.0
    for begin_s, end_s in sorted(spans):
        total_s += max(0.0, end_s - max(begin_s, reached_s))
        reached_s = max(reached_s, end_s)
    return total_s


def plan() -> Plan:
    """Plan four trials of different kinds: two push triggers, one that is watched, and operations."""
    load = [{"name": "load", "load": [{"rate_per_s": RATE_PER_S, "duration_s": LOAD_S}]}]
    triggers: list[dict[str, Any]] = [
        {"name": store, "experiment": "trigger", "target": {"store": store}, "phases": load}
        for store in ("s3", "dynamodb", "etcd")
    ]
    workload = {"records": 100, "mix": {"read": 0.5, "overwrite": 0.5}}
    operations = {"experiment": "operations", "target": {"store": "redis"}, "workload": workload, "phases": load}
    return Plan.model_validate({"name": "overhead", "trials": [*triggers, {"name": "redis", **operations}]})


def run_once(stack: Stack) -> Timed:
    """
    Run the plan, from beginning to end.

    Raises:
        SystemExit: it failed, or does not end.
    """
    began, asked = datetime.now(UTC), plan()
    run_id = new_run_id(asked.name, began)
    executions = Executions(stack, RunSpec(run_id, expand(asked, run_id), began))
    executions.start(asked.model_dump(mode="json", exclude_none=True))
    limit_s = time.monotonic() + _LIMIT_S
    while (described := executions.describe())["status"] == RUNNING:
        if time.monotonic() > limit_s:
            sys.exit(f"{run_id} has not ended after {_LIMIT_S} s")
        time.sleep(_POLL_S)
    if described["status"] != SUCCEEDED:
        sys.exit(f"{run_id}: {described.get('error')}: {described.get('cause')}")
    begin_s, end_s = (described[name].timestamp() for name in ("startDate", "stopDate"))
    load_s = sum(spec.plan.length_s for spec in executions.run.specs)
    spans = tuple(sorted(_spans(stack, begin_s, end_s), key=lambda span: span.begin_s))
    return Timed(len(executions.run.specs), end_s - begin_s - load_s, spans, _ready_s(stack, executions.run))


def _spans(stack: Stack, begin_s: float, end_s: float) -> Iterator[Span]:
    logs = stack.aws("logs")
    for group in logs.describe_log_groups(logGroupNamePrefix=_GROUP)["logGroups"]:
        name = group["logGroupName"]
        window = {"startTime": int(begin_s * 1e3), "endTime": int(end_s * 1e3) + 1}
        for event in logs.filter_log_events(logGroupName=name, filterPattern=PATTERN, **window)["events"]:
            line = parse_report(event["message"])
            if line is not None:
                at_s = event["timestamp"] / 1e3 - begin_s
                yield Span(name.rpartition("-")[2], at_s - line.duration_ms / 1e3, at_s)


def _ready_s(stack: Stack, run: RunSpec) -> float:
    """Return the least time from the clock measurement of a writer, its last act before it holds, to its start."""
    spare: list[float] = []
    for spec in run.specs:
        key = layout.phase_key(spec.ref, 0, "plan.json")
        start_ns = stack.runs.get_model(key, PhaseSchedule).start_at_ns
        samples = [sample.at_ns for sample in stack.table.clocks(spec.tag) if sample.role == "writer"]
        spare += [(start_ns - min(samples)) / 1e9] if samples else []
    return min(spare)


def discard_sandboxes(stack: Stack) -> None:
    """Have every function start anew, as after a deployment."""
    functions = stack.aws("lambda")
    for page in functions.get_paginator("list_functions").paginate():
        for function in page["Functions"]:
            functions.update_function_configuration(FunctionName=function["FunctionName"], Timeout=function["Timeout"])


def figures(runs: Sequence[Timed]) -> tuple[Figure, ...]:
    """Return a trial's share of the runs; then their states, by what they cost."""
    goal = Goal(of="value", at_most=MOST_S_PER_TRIAL)
    trial = Figure(name="a trial", unit="s", ours=tuple(run.beyond_s / run.trials for run in runs), goal=goal)
    ready = Figure(name="a writer's time to spare, least", unit="s", ours=tuple(run.ready_s for run in runs))
    names = sorted({span.function for run in runs for span in run.spans} - _ASIDE)
    spent = {name: [run.state_s(name) / run.trials for run in runs] for name in names}
    spent["between states"] = [run.between_s / run.trials for run in runs]
    by_cost = sorted(spent.items(), key=lambda item: -sum(item[1]))
    words = {"RunWriter": "RunWriter, less the load"}
    states = (Figure(name=f"of it {words.get(name, name)}", unit="s", ours=tuple(values)) for name, values in by_cost)
    return (trial, *states, ready)


@contextmanager
def environment(home: Path | None) -> Iterator[LocalSession]:
    """Bring an environment up; it is kept where it has a home, else gone with the block."""
    with tempfile.TemporaryDirectory() as folder:
        paths = Paths(command.ROOT, home or Path(folder))
        try:
            with occupied(paths.home):
                yield open_session(bring_up(paths, lambda text: print(text, file=sys.stderr, flush=True)))
        finally:
            if home is None:
                down(paths)


def measure(asked: argparse.Namespace) -> command.Found:
    """Measure cold and warm runs in turns."""
    os.sched_setaffinity(0, range(os.cpu_count() or 1))  # nothing here has a core to itself
    cold: list[Timed] = []
    warm: list[Timed] = []
    with environment(asked.home) as session:
        for _ in range(asked.rounds):
            discard_sandboxes(session.stack)
            cold.append(run_once(session.stack))
            warm.append(run_once(session.stack))
    names = ("four trials, every function's first sandbox among them", "four trials, sandboxes at hand")
    cases = tuple(Case(name=name, figures=figures(runs)) for name, runs in zip(names, (cold, warm), strict=True))
    return command.Found(cases, _NOTES)


_NOTES = (
    f"Trials of {LOAD_S} s at {RATE_PER_S}/s: S3, DynamoDB, etcd (watched), Redis (operations).",
    "Per trial: first sandboxes, ValidatePlan and RenderReport come once a run, so one cold trial alone takes longer.",
    "Emulator, stores, functions and what watches them share all cores; nothing is pinned.",
)


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--home", type=Path, help="an environment's folder to use, and to leave up")
    parser.set_defaults(rounds=ROUNDS)


if __name__ == "__main__":
    command.run("overhead", QUESTION, measure, _options)
