"""
Our Redis operations beside redis-benchmark, on one server: SET and GET by 1, 10 and 100 clients.

    python -m benchmarks.redis [--rounds N] [--quick] [--tool PATH] [--profile CLIENTS]

Ours is what a writer runs: `RedisOperations` driven by the closed loop's clients without a pause, records chosen and
made as in a trial (blobs of 889 bytes, keys of 59, 10,000 of them), every operation written down. Theirs sends one
command with the same sizes again and again, and keeps a histogram. One server for all, the wheel's Valkey.

CPU is that of the client's process: of the tool with its start and its connections, of ours from when connections are
open and the first choices made. `--profile` prints where ours spends it.
"""

from __future__ import annotations

import argparse
import csv
import resource
import shutil
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from benchmarks import command, rounds
from benchmarks.result import Case, Goal, Measure

from stepbench.clock import AnchoredClock
from stepbench.contracts.plan import TrialSpec
from stepbench.drivers.redis.operations import RedisOperations
from stepbench_tools.local.stores.wheels import start_valkey

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
    """One case for both: `requests` of one operation, by so many clients, of the server there."""

    endpoint: str
    operation: str
    clients: int
    requests: int
    spec: TrialSpec

    def driver(self) -> RedisOperations:
        """Return our driver, not yet open."""
        return RedisOperations(self.spec, rounds.settings(redis_endpoint=self.endpoint), AnchoredClock())


def subject_of(endpoint: str, operation: str, clients: int, requests: int) -> Subject:
    """Return a case with a trial of ours that does only this."""
    workload = {"mix": {KINDS[operation]: 1}, "records": RECORDS}
    return Subject(endpoint, operation, clients, requests, rounds.trial({"store": "redis"}, workload, clients))


async def ours(subject: Subject) -> tuple[float, ...]:
    """Run a writer's clients; return a number for each measure."""
    each = subject.requests // subject.clients
    rows, cpu_s = await rounds.run_writer(subject.driver(), subject.spec, subject.clients, each)
    took_us = (rows.t2_ns - rows.t1_ns) / 1e3
    return float(np.median(took_us)), float(took_us.mean()), rounds.per_s(rows), cpu_s / took_us.size * 1e6


def theirs(tool: str, subject: Subject) -> tuple[float, ...]:
    """Run the tool; return its own number for each measure."""
    host, port, _ = rounds.address_of(subject.endpoint)
    options = ["-h", host, "-p", port, "-c", subject.clients, "-n", subject.requests, "--csv"]
    parts = [part.decode() for part in COMMANDS[subject.operation]]
    before_s = rounds.cpu_s(resource.RUSAGE_CHILDREN)
    printed = command.run_program([tool, *options, *parts])
    cpu_s = rounds.cpu_s(resource.RUSAGE_CHILDREN) - before_s
    row = list(csv.DictReader(printed.splitlines()))[-1]
    p50_us, mean_us = (float(row[name]) * 1e3 for name in ("p50_latency_ms", "avg_latency_ms"))
    return p50_us, mean_us, float(row["rps"]), cpu_s / subject.requests * 1e6


def measures_of(clients: int) -> tuple[Measure, ...]:
    """Return what is measured in a round, with the goals of a case with so many clients."""
    return (
        Measure("latency p50", "µs", Goal(at_most=1.10) if clients == CLIENTS[0] else None),
        Measure("latency mean", "µs"),
        Measure("operations a second", "1/s", Goal(at_least=0.9) if clients == CLIENTS[-1] else None),
        Measure("CPU an operation", "µs"),
    )


def case_of(asked: argparse.Namespace, tool: str, subject: Subject, peer: str) -> Case:
    """Run ours and the tool in turns."""
    rounds.measured(subject.driver().prepare)
    both = partial(rounds.measured, ours, subject), partial(theirs, tool, subject)
    figures = rounds.compare(measures_of(subject.clients), *both, asked.rounds)
    rounds.measured(rounds.tear_down, subject.driver())
    return Case(name=f"{subject.operation}, {rounds.clients_words(subject.clients)}", peer=peer, figures=figures)


def measure(asked: argparse.Namespace) -> command.Found:
    """Measure all cases, or with `--profile` none: print where ours spends its time, by function."""
    with rounds.server(None, start_valkey) as (endpoint, server):
        if asked.profile:
            _profile(subject_of(endpoint, "SET", asked.profile, REQUESTS[asked.profile]))
            return command.Found(())
        tool = _tool(asked)
        peer = f"{_etcd_version(tool)} ({server})"
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


def _etcd_version(tool: str) -> str:
    """Return the tool's name and version: "redis-benchmark 7.0.15"."""
    return f"{Path(tool).name} {command.run_program([tool, '--version']).split()[1]}"


def _profile(subject: Subject) -> None:
    rounds.measured(subject.driver().prepare)
    rounds.print_profile(rounds.measured, ours, subject)
    rounds.measured(rounds.tear_down, subject.driver())


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tool", help="redis-benchmark or valkey-benchmark; default: that of the PATH")
    parser.add_argument("--profile", type=int, choices=CLIENTS, help="print a profile of ours, with so many clients")


if __name__ == "__main__":
    command.run("redis", QUESTION, measure, _options)
