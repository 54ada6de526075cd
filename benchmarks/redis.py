"""
Our Redis operations beside redis-benchmark, on one server: SET and GET by 1, 10 and 100 clients.

    python -m benchmarks.redis [--rounds N] [--quick] [--tool PATH] [--profile CLIENTS]

Ours is what a writer runs: `RedisOperations` driven by the closed loop's clients without a pause, records chosen and
made as in a trial (blobs of 889 bytes, keys of 59, 10,000 of them), every operation written down. Theirs sends one
command with the same sizes again and again, and keeps a histogram. One server for all, the wheel's Valkey.

The tool's p50 comes in steps of 8 µs (its histogram's), its mean in steps of 1 µs. CPU is that of the client's process:
of the tool with its start and its connections, of ours from when connections are open and the first choices made.
`--profile` prints where ours spends it.
"""

from __future__ import annotations

import argparse
import cProfile
import csv
import pstats
import resource
import shutil
import subprocess
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from benchmarks import command, machine, rounds
from benchmarks.result import Case, Goal, Measure, figures_of

from stepbench.clock import AnchoredClock
from stepbench.contracts.plan import TrialSpec
from stepbench.drivers.operations.redis import RedisOperations
from stepbench.local.valkey import start_valkey
from stepbench.stages.event_loop import run_measuring

QUESTION = "How long do SET and GET take in Redis, and how many can be done, beside redis-benchmark?"
KEY, VALUE = b"k" * 59, b"v" * 889
COMMANDS: dict[str, tuple[bytes, ...]] = {"SET": (b"SET", KEY, VALUE), "GET": (b"GET", KEY)}
KINDS = {"SET": "overwrite", "GET": "read"}
CLIENTS = (1, 10, 100)
REQUESTS = {1: 10_000, 10: 20_000, 100: 40_000}
RECORDS = 10_000
_QUICK_DIVISOR = 10
NOTES = (
    "Ours makes each command anew, with another record and value, and writes down each operation with its times.",
    "redis-benchmark sends one command again and again, and counts into a histogram.",
    "redis-benchmark's p50 comes in steps of 8 µs; its mean is exact to 1 µs.",
)


class Subject(NamedTuple):
    """What both do: `requests` of one operation, by so many clients, of the server there."""

    endpoint: str
    operation: str
    clients: int
    requests: int
    spec: TrialSpec

    def driver(self) -> RedisOperations:
        """Ours, not yet open."""
        return RedisOperations(self.spec, rounds.settings(redis_endpoint=self.endpoint), AnchoredClock())


class Figures(NamedTuple):
    """One round of one client."""

    p50_us: float
    mean_us: float
    per_s: float
    cpu_us: float


def subject_of(endpoint: str, operation: str, clients: int, requests: int) -> Subject:
    """A trial of ours that does only this."""
    workload = {"mix": {KINDS[operation]: 1}, "records": RECORDS}
    return Subject(endpoint, operation, clients, requests, rounds.trial({"store": "redis"}, workload, clients))


def ours(subject: Subject) -> Figures:
    """A writer's clients, on its event loop."""
    return run_measuring(_ours(subject))


async def _ours(subject: Subject) -> Figures:
    driver, clock, each = subject.driver(), AnchoredClock(), subject.requests // subject.clients
    makers = rounds.makers_of(driver, subject.spec, subject.clients, each, clock)
    await driver.open()
    await driver.warm_up()
    before_s = rounds.cpu_s()
    rows = await rounds.closed_loop(makers, clock, rounds.Pace(each=each))
    cpu_s = rounds.cpu_s() - before_s
    await driver.close()
    took_us = (rows.t2_ns - rows.t1_ns) / 1e3
    return Figures(float(np.median(took_us)), float(took_us.mean()), rounds.per_s(rows), cpu_s / took_us.size * 1e6)


def theirs(tool: str, subject: Subject) -> Figures:
    """The tool's own figures."""
    host, _, port = subject.endpoint.rpartition(":")
    options = ["-h", host, "-p", port, "-c", str(subject.clients), "-n", str(subject.requests), "--csv"]
    parts = [part.decode() for part in COMMANDS[subject.operation]]
    before_s = rounds.cpu_s(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        machine.on_core([tool, *options, *parts], machine.LOAD_CORE),
        check=True,
        capture_output=True,
        text=True,
        timeout=rounds.LIMIT_S,
    )
    cpu_s = rounds.cpu_s(resource.RUSAGE_CHILDREN) - before_s
    row = list(csv.DictReader(done.stdout.splitlines()))[-1]
    p50_us, mean_us = (float(row[name]) * 1e3 for name in ("p50_latency_ms", "avg_latency_ms"))
    return Figures(p50_us, mean_us, float(row["rps"]), cpu_s / subject.requests * 1e6)


def measures_of(clients: int) -> tuple[Measure, ...]:
    """What a round gives, as `Figures`, with what is aimed at."""
    return (
        Measure("latency p50", "µs", Goal(at_most=1.10) if clients == CLIENTS[0] else None),
        Measure("latency mean", "µs"),
        Measure("operations a second", "1/s", Goal(at_least=0.9) if clients == CLIENTS[-1] else None),
        Measure("CPU an operation", "µs"),
    )


def case_of(asked: argparse.Namespace, tool: str, subject: Subject, peer: str) -> Case:
    """Ours and the tool's in turns."""
    run_measuring(subject.driver().prepare())
    pairs = rounds.take_turns(partial(ours, subject), partial(theirs, tool, subject), asked.rounds)
    run_measuring(_tear_down(subject))
    clients = f"{subject.clients} client{'s' * (subject.clients > 1)}"
    figures = figures_of(measures_of(subject.clients), pairs)
    return Case(name=f"{subject.operation}, {clients}", peer=peer, figures=figures)


async def _tear_down(subject: Subject) -> None:
    while not await subject.driver().tear_down():
        pass


def measure(asked: argparse.Namespace) -> command.Found:
    """All cases, or with `--profile` none: where ours spends its time, by function."""
    with rounds.server(None, start_valkey) as (endpoint, server):
        if asked.profile:
            _profile(subject_of(endpoint, "SET", asked.profile, REQUESTS[asked.profile]))
            return command.Found(())
        tool = _tool(asked)
        peer = f"{_version(tool)} ({server})"
        divisor = _QUICK_DIVISOR if asked.quick else 1
        subjects = [
            subject_of(endpoint, operation, clients, REQUESTS[clients] // divisor)
            for operation in COMMANDS  # SET first, so that the tool's GET finds something
            for clients in CLIENTS
        ]
        return command.Found(tuple(case_of(asked, tool, subject, peer) for subject in subjects), NOTES)


def _tool(asked: argparse.Namespace) -> str:
    tool = asked.tool or shutil.which("redis-benchmark") or shutil.which("valkey-benchmark")
    if tool is None:
        message = "neither redis-benchmark nor valkey-benchmark is on the PATH: apt-get install redis-tools"
        raise command.MissingComparatorError(message)
    return str(tool)


def _version(tool: str) -> str:
    """`redis-benchmark 7.0.15`."""
    done = subprocess.run([tool, "--version"], check=True, capture_output=True, text=True, timeout=rounds.LIMIT_S)
    return f"{Path(tool).name} {done.stdout.split()[1]}"


def _profile(subject: Subject) -> None:
    run_measuring(subject.driver().prepare())
    profiler = cProfile.Profile()
    profiler.runcall(ours, subject)
    pstats.Stats(profiler).sort_stats("tottime").print_stats(30)
    run_measuring(_tear_down(subject))


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tool", help="redis-benchmark or valkey-benchmark; default: that of the PATH")
    parser.add_argument("--profile", type=int, choices=CLIENTS, help="print a profile of ours, with so many clients")


if __name__ == "__main__":
    command.run("redis", QUESTION, measure, _options)
