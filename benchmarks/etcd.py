"""
Our etcd driver beside etcd's own `benchmark put`, on the same server, interleaved. Run by hand; two minutes.

    python -m benchmarks.etcd [--tool PATH] [--rounds 3] [--requests 10000] [--endpoint HOST:PORT]

Without an endpoint it starts the wheel's etcd. Ours is `EtcdOperations` under `ClosedLoop` as a writer runs them: P
clients without pauses. Theirs has as many, on as many connections as ours has channels. Both put new keys of 59 bytes
with 889, in no order, in every round (the tool draws them from 2^62 numbers; ours are removed after the round, the
tool's stay). Prints a Markdown row for each P: median over the rounds, and the median of the rounds' ratios with their
least and greatest. CPU is the client's: ours under load, theirs of its whole process, whose start takes some 10 ms.

The tool is built from the Go module proxy, in an empty directory (its module refuses `go install`, since it replaces
others by its own directories):

    go mod init any && go get go.etcd.io/etcd/v3@v3.5.21 && go build -mod=mod go.etcd.io/etcd/v3/tools/benchmark
"""

from __future__ import annotations

import argparse
import re
import resource
import shutil
import subprocess
import sys
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from benchmarks import rounds

from stepbench.clock import AnchoredClock
from stepbench.drivers.operations.etcd import CLIENTS_PER_CHANNEL, EtcdOperations
from stepbench.local.etcd import start_etcd
from stepbench.stages.event_loop import run_measuring

if TYPE_CHECKING:
    from collections.abc import Sequence

KEY_BYTES, VALUE_BYTES = 59, 889
CLIENTS = (1, 10, 100)
_KEY_SPACE = 2**62
"""Of which the tool draws: none twice. In sequence it would begin with the same keys each round, and overwrite them."""


class Figures(NamedTuple):
    """Of one round."""

    p50_us: float
    p99_us: float
    per_s: float
    cpu_us: float


def ours(endpoint: str, clients: int, requests: int) -> Figures:
    """In a process of its own, as the tool is: what the last round has left behind is nobody's burden."""
    command = [
        sys.executable,
        "-m",
        "benchmarks.etcd",
        "--endpoint",
        endpoint,
        "--only",
        str(clients),
        "--requests",
        str(requests),
    ]
    return Figures(*map(float, _run(command).split()))


def theirs(tool: str, endpoint: str, clients: int, requests: int) -> Figures:
    """The tool's own figures."""
    many = [f"--conns={-(-clients // CLIENTS_PER_CHANNEL)}", f"--clients={clients}", f"--total={requests}"]
    sizes = [f"--key-size={KEY_BYTES}", f"--val-size={VALUE_BYTES}", f"--key-space-size={_KEY_SPACE}"]
    before_s = rounds.cpu_s(resource.RUSAGE_CHILDREN)
    said = _run([tool, "put", f"--endpoints={endpoint}", "--precise", *many, *sizes])
    cpu_us = (rounds.cpu_s(resource.RUSAGE_CHILDREN) - before_s) / requests * 1e6
    p50_s, p99_s = (float(re.search(rf"\n\s+{q}% in (\S+) secs", said)[1]) for q in (50, 99))  # type: ignore[index]
    per_s = float(re.search(r"Requests/sec:\s+(\S+)", said)[1])  # type: ignore[index]
    return Figures(p50_s * 1e6, p99_s * 1e6, per_s, cpu_us)


def _run(command: Sequence[str]) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=rounds.LIMIT_S).stdout


async def puts(endpoint: str, clients: int, requests: int) -> str:
    """One round of ours: p50 and p99 in µs, operations a second, CPU under load in µs an operation."""
    record = {"shape": "blob", "key_bytes": KEY_BYTES, "value_bytes": VALUE_BYTES}
    spec = rounds.trial({"store": "etcd"}, {"mix": {"insert": 1}, "records": 0, "record": record}, clients)
    clock, each = AnchoredClock(), requests // clients
    driver = EtcdOperations(spec, rounds.settings(etcd_endpoint=endpoint), clock)
    offers = rounds.offers_of(driver, spec, clients, each)
    await driver.open()
    await driver.warm_up()
    before_s = rounds.cpu_s()
    rows = await rounds.closed_loop(offers, clock, rounds.Pace(each=each))
    cpu_us = (rounds.cpu_s() - before_s) / rows.sequence.size * 1e6
    await driver.tear_down()
    await driver.close()
    p50_us, p99_us = np.quantile((rows.t2_ns - rows.t1_ns) / 1e3, (0.5, 0.99)).tolist()
    return f"{p50_us} {p99_us} {rounds.per_s(rows)} {cpu_us}"


def main() -> None:
    """Print the table, or with `--only` the figures of one round of ours."""
    parser = argparse.ArgumentParser(description="Our etcd driver beside etcd's own benchmark.")
    parser.add_argument("--tool", default=shutil.which("benchmark"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--endpoint")
    parser.add_argument("--only", type=int, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.only:
        print(run_measuring(puts(asked.endpoint, asked.only, asked.requests)))
        return
    if asked.tool is None:
        sys.exit("etcd's benchmark is not on the PATH; build it as this file's head says, and give --tool")
    with rounds.server(asked.endpoint, start_etcd) as (endpoint, name):
        print(f"{name}; {rounds.load_average()}; ours / theirs = ratio (least-greatest)")
        print("\n| clients | p50, µs | p99, µs | operations/s | client CPU, µs/op |\n|---|---|---|---|---|")
        for clients in CLIENTS:
            own = partial(ours, endpoint, clients, asked.requests)
            other = partial(theirs, asked.tool, endpoint, clients, asked.requests)
            print(f"| {clients} | {rounds.cells(rounds.take_turns(own, other, asked.rounds))} |", flush=True)
    print(f"\n{rounds.load_average()} at the end")


if __name__ == "__main__":
    main()
