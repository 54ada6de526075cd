"""
Our Redis operations beside redis-benchmark (or valkey-benchmark), on one server, interleaved. By hand; a minute.

    python -m benchmarks.redis [--tool PATH] [--rounds 5] [--requests 20000] [--endpoint HOST:PORT] [--profile]

Ours is what a writer runs: `RedisOperations` driven by the closed loop's clients without a pause, records chosen and
made as in a trial (blobs of 889 bytes, keys of 59, 10,000 of them), every operation written down. Theirs sends one
command with the same sizes again and again. Without an endpoint it starts the wheel's Valkey. Prints a Markdown row per
operation and number of clients: median over the rounds, and the median of the rounds' ratios with their least and
greatest. The tool's p50 comes in steps of 8 µs (its histogram's), so that with one client the mean round trip, 1 /
throughput, says more. CPU is that of the client's process: of the tool with its start and its connections, of ours
from when connections are open and the first choices made. `--profile` prints where ours spends it at the most clients.
"""

from __future__ import annotations

import argparse
import cProfile
import csv
import pstats
import resource
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import NamedTuple

from benchmarks import rounds

from stepbench.clock import AnchoredClock
from stepbench.contracts.plan import TrialSpec
from stepbench.drivers.operations.redis import RedisOperations
from stepbench.local.valkey import start_valkey
from stepbench.stages.event_loop import run_measuring

KEY, VALUE = b"k" * 59, b"v" * 889
COMMANDS: dict[str, tuple[bytes, ...]] = {"SET": (b"SET", KEY, VALUE), "GET": (b"GET", KEY)}
KINDS = {"SET": "overwrite", "GET": "read"}
CLIENTS = (1, 10, 100)
RECORDS = 10_000


class Case(NamedTuple):
    """What both do: `requests` of one operation, by so many clients, of the server there."""

    endpoint: str
    operation: str
    clients: int
    requests: int
    spec: TrialSpec


class Figures(NamedTuple):
    """One round of one client: median latency, throughput, CPU of the client."""

    p50_us: float
    per_s: float
    cpu_us: float


def case_of(endpoint: str, operation: str, clients: int, requests: int) -> Case:
    """A trial of ours that does only this."""
    workload = {"mix": {KINDS[operation]: 1}, "records": RECORDS}
    return Case(endpoint, operation, clients, requests, rounds.trial({"store": "redis"}, workload, clients))


def driver_of(case: Case) -> RedisOperations:
    """Ours, not yet open."""
    return RedisOperations(case.spec, rounds.settings(redis_endpoint=case.endpoint), AnchoredClock())


def ours(case: Case) -> Figures:
    """A writer's clients, on its event loop."""
    return run_measuring(_ours(case))


async def _ours(case: Case) -> Figures:
    driver, each = driver_of(case), case.requests // case.clients
    offers = rounds.offers_of(driver, case.spec, case.clients, each)
    await driver.open()
    await driver.warm_up()
    before_s = rounds.cpu_s()
    rows = await rounds.closed_loop(offers, AnchoredClock(), rounds.Pace(each=each))
    cpu_s = rounds.cpu_s() - before_s
    await driver.close()
    return Figures(rounds.p50_us(rows), rounds.per_s(rows), cpu_s / rows.sequence.size * 1e6)


async def _tear_down(case: Case) -> None:
    while not await driver_of(case).tear_down():
        pass


def theirs(tool: str, case: Case) -> Figures:
    """The tool's own figures."""
    host, _, port = case.endpoint.rpartition(":")
    options = ["-h", host, "-p", port, "-c", str(case.clients), "-n", str(case.requests), "--csv"]
    before_s = rounds.cpu_s(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [tool, *options, *(part.decode() for part in COMMANDS[case.operation])],
        check=True,
        capture_output=True,
        text=True,
        timeout=rounds.LIMIT_S,
    )
    cpu_s = rounds.cpu_s(resource.RUSAGE_CHILDREN) - before_s
    row = list(csv.DictReader(done.stdout.splitlines()))[-1]
    return Figures(float(row["p50_latency_ms"]) * 1e3, float(row["rps"]), cpu_s / case.requests * 1e6)


def profile(case: Case) -> None:
    """Where ours spends its time, by function."""
    profiler = cProfile.Profile()
    profiler.runcall(ours, case)
    pstats.Stats(profiler).sort_stats("tottime").print_stats(25)


def main() -> None:
    """Print the table, or the profile."""
    parser = argparse.ArgumentParser(description="Our Redis operations beside the store's own benchmark.")
    parser.add_argument("--tool", default=shutil.which("valkey-benchmark") or shutil.which("redis-benchmark"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--endpoint")
    parser.add_argument("--profile", action="store_true")
    asked = parser.parse_args()
    if asked.tool is None and not asked.profile:
        sys.exit("neither valkey-benchmark nor redis-benchmark is on the PATH; apt-get install redis-tools")
    with rounds.server(asked.endpoint, start_valkey) as (endpoint, name):
        if not asked.profile:
            tool = Path(asked.tool).name
            print(f"{name}; {rounds.load_average()}; ours / {tool} = ratio (least-greatest)")
            print("\n| operation | clients | p50, µs | operations/s | client CPU, µs/op |\n|---|---|---|---|---|")
        for operation in ("SET",) if asked.profile else COMMANDS:
            for clients in CLIENTS[-1:] if asked.profile else CLIENTS:
                _measure(asked, case_of(endpoint, operation, clients, asked.requests))
    print(f"\n{rounds.load_average()} at the end")


def _measure(asked: argparse.Namespace, case: Case) -> None:
    """One row, or the profile."""
    run_measuring(driver_of(case).prepare())
    if asked.profile:
        profile(case)
    else:
        pairs = rounds.take_turns(partial(ours, case), partial(theirs, asked.tool, case), asked.rounds)
        print(f"| {case.operation} | {case.clients} | {rounds.cells(pairs)} |", flush=True)
    run_measuring(_tear_down(case))


if __name__ == "__main__":
    main()
