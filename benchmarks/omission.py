"""
How much a closed loop hides of a store that stalls, beside what an open loop sees. Run by hand; under two minutes.

    python -m benchmarks.omission [--seconds 20] [--stall-ms 300] [--every-s 5] [--max-in-flight 64]

The wheel's Valkey is stopped (SIGSTOP) and continued (SIGCONT) at a fixed pace: so the server itself stands still, as
in a long collection or a fork, its connections stay, and nothing is refused or lost. A proxy would stall the network
instead, delay the operations that do not stall, and take CPU from both sides. The stalls begin at the same times of
each series.

Series, of reads by `RedisOperations`: a closed loop with one client and a pause; one with ten clients and ten times the
pause, at about the same rate; an open loop at the first one's mean rate; a closed loop with ten clients without a
pause, as fast as it goes, and an open loop at half of its mean rate. Prints two Markdown tables. First each series'
service time (t2 - t1) and response time (t2 - t0, in a closed loop from when the client was ready); then what
`analysis.caveats.windows` makes of the closed ones, operation by operation due at an even pace, beside what the open
loop measured. The pace is each client's own mean (p 1), or half of it (p 0.5), which `analysis.stalls` takes. The last
open loop is near what the generator can do: it has little room to catch up, and shows that as well.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from benchmarks import machine, rounds

from stepbench.analysis.caveats.windows import scheduled_response
from stepbench.clock import AnchoredClock
from stepbench.drivers.redis.operations import RedisOperations
from stepbench.load.open_loop import OpenLoop, SliceLimits
from stepbench.load.recorder import OperationRecorder
from stepbench.load.slices import ClientConnections
from stepbench.load.timer import best_timer
from stepbench.model.result import Outcome
from stepbench.stages.event_loop import run_measuring
from stepbench.stats.quantiles import quantile
from stepbench.workload.arrivals import think_times_ns
from stepbench_tools.local.processes import terminate
from stepbench_tools.local.stores.valkey import start_valkey

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from stepbench.contracts.plan import TrialSpec
    from stepbench.records.formats.columns import Rows

LEVELS = (0.5, 0.9, 0.99, 0.999, 1.0)
THINK_S = 0.001
SEVERAL = 10
FIRST_STALL_S = 2.0
PACES = (1.0, 0.5)
_LEAD_NS = 50_000_000
_DRAIN_S = 10
_ALL_CHOICES = 1_024
"""Prepared before the clock starts; what comes after is made in passing, some hundred microseconds a block."""


class Stalls(NamedTuple):
    """When and how long the server stands still."""

    pid: int
    length_s: float
    every_s: float


class Series(NamedTuple):
    """The times that one way of offering has measured; service and response in ms, in order of t0."""

    name: str
    service_ms: NDArray[np.float64]
    response_ms: NDArray[np.float64]
    client: NDArray[np.int64]
    length_s: float

    @property
    def per_s(self) -> float:
        """Return the mean rate, stalls included."""
        return self.service_ms.size / self.length_s

    def scheduled_ms(self, pace: float) -> NDArray[np.float64]:
        """Return the response times, had each client's operations been due at this share of its own mean rate."""
        own = [self.service_ms[self.client == number] for number in np.unique(self.client).tolist()]
        return np.concatenate([scheduled_response(each, self.length_s * 1e3 / each.size / pace) for each in own])


class Bench:
    """A server that stalls, and a trial whose records it holds."""

    def __init__(self, spec: TrialSpec, endpoint: str, stalls: Stalls, seconds: float) -> None:
        self._spec = spec
        self._settings = rounds.settings(redis_endpoint=endpoint)
        self._stalls = stalls
        self._seconds = seconds

    async def prepare(self) -> None:
        """Write the records."""
        await self._driver().prepare()

    async def closed(self, name: str, clients: int, think_s: float) -> Series:
        """Run so many clients that wait for their answers."""
        driver, clock = self._driver(), AnchoredClock()
        makers = rounds.makers_of(driver, self._spec, clients, _ALL_CHOICES)
        pace = rounds.Pace(self._seconds, pauses_ns=lambda client: think_times_ns(think_s, "constant", (client,)))
        await driver.open()
        await driver.warm_up()
        with stalling(self._stalls):
            rows = await rounds.closed_loop(makers, clock, pace)
        await driver.close()
        return _series(name, rows, rows.extras["client"], self._seconds)

    async def open(self, name: str, per_s: float, max_in_flight: int) -> Series:
        """Offer at an even pace, each operation on a connection that has none under way."""
        driver, clock = self._driver(), AnchoredClock()
        count = round(per_s * self._seconds)
        operations = rounds.operations_of(self._spec, 0, count)
        await driver.open()
        await driver.warm_up()
        with stalling(self._stalls):
            due_ns = clock.now_ns() + _LEAD_NS + (np.arange(count) * (1e9 / per_s)).astype(np.int64)
            recorder = OperationRecorder(due_ns)
            make = ClientConnections(operations, driver.prepare_request, recorder, range(max_in_flight)).make
            limits = SliceLimits(max_in_flight, int(due_ns[-1]) + _DRAIN_S * 10**9, _DRAIN_S)
            await OpenLoop(make, clock, best_timer(clock), recorder, limits=limits).run()
        await driver.close()
        rows = recorder.take()
        if (rows.outcome != Outcome.OK).any():
            sys.exit(f"{name}: {recorder.counts} ok, failed, unknown, unsent; {recorder.errors}")
        return _series(name, rows, np.zeros(count, np.int64), self._seconds)

    def _driver(self) -> RedisOperations:
        return RedisOperations(self._spec, self._settings, AnchoredClock())


@contextmanager
def stalling(stalls: Stalls) -> Iterator[None]:
    """Let the server stand still at its times; it goes on at the end, whatever comes."""
    over = threading.Event()
    thread = threading.Thread(target=_stall, args=(stalls, over))
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _stall(stalls: Stalls, over: threading.Event) -> None:
    pause_s = FIRST_STALL_S
    while not over.wait(pause_s):
        os.kill(stalls.pid, signal.SIGSTOP)
        try:
            over.wait(stalls.length_s)
        finally:
            os.kill(stalls.pid, signal.SIGCONT)
        pause_s = stalls.every_s - stalls.length_s


def _series(name: str, rows: Rows, client: NDArray[np.int64], length_s: float) -> Series:
    return Series(name, (rows.t2_ns - rows.t1_ns) / 1e6, (rows.t2_ns - rows.t0_ns) / 1e6, client, length_s)


async def measure(bench: Bench, max_in_flight: int) -> tuple[list[Series], list[tuple[Series, Series]]]:
    """Return all series, and each closed one with the open one that it is set beside."""
    await bench.prepare()
    one = await bench.closed("closed, 1 client, 1 ms pause", 1, THINK_S)
    several = await bench.closed(f"closed, {SEVERAL} clients, {SEVERAL} ms pause", SEVERAL, SEVERAL * THINK_S)
    open_ = await bench.open("open, rate of the first", one.per_s, max_in_flight)
    fast = await bench.closed(f"closed, {SEVERAL} clients, no pause", SEVERAL, 0)
    fast_open = await bench.open("open, half that rate", fast.per_s / 2, max_in_flight)
    return [one, several, open_, fast, fast_open], [(one, open_), (several, open_), (fast, fast_open)]


def _cells(values_ms: NDArray[np.float64]) -> str:
    ascending = np.sort(values_ms)
    return " | ".join(f"{quantile(ascending, q):,.3f}" for q in LEVELS)


def print_measured(series: list[Series], limit_ms: float) -> None:
    """Print the first table: what was measured."""
    print(f"\n| series | operations/s | time, ms | p50 | p90 | p99 | p99.9 | max | over {limit_ms:g} ms |")
    print("|---|---|---|---|---|---|---|---|---|")
    for each in series:
        for time, values_ms in (("service", each.service_ms), ("response", each.response_ms)):
            over = f"{np.count_nonzero(values_ms > limit_ms):,} of {values_ms.size:,}"
            print(f"| {each.name} | {each.per_s:,.0f} | {time} | {_cells(values_ms)} | {over} |")


def print_estimated(pairs: list[tuple[Series, Series]]) -> None:
    """Print the second: what each closed loop shows, what can be made of it, what an open loop sees."""
    print("\n| closed series | what, ms | p50 | p90 | p99 | p99.9 | max |\n|---|---|---|---|---|---|---|")
    for closed, open_ in pairs:
        print(f"| {closed.name} | service, as measured | {_cells(closed.service_ms)} |")
        for pace in PACES:
            print(f"| {closed.name} | estimated response, p {pace:g} | {_cells(closed.scheduled_ms(pace))} |")
        print(f"| {closed.name} | **{open_.name}: measured** | {_cells(open_.response_ms)} |")


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description="What a closed loop hides of a store's stalls.")
    parser.add_argument("--seconds", type=float, default=20, help="of each series")
    parser.add_argument("--stall-ms", type=float, default=300)
    parser.add_argument("--every-s", type=float, default=5)
    parser.add_argument("--max-in-flight", type=int, default=64)
    asked = parser.parse_args()
    spec = rounds.trial({"store": "redis"}, {"mix": {"read": 1}, "records": 1_000}, asked.max_in_flight)
    with tempfile.TemporaryDirectory() as directory:
        store = start_valkey(Path(directory))
        try:
            stalls = Stalls(store.pids[0], asked.stall_ms / 1e3, asked.every_s)
            load = f"load average {machine.load_average():.2f}"
            print(f"{store.version}; {asked.stall_ms:g} ms every {asked.every_s:g} s; {load}")
            bench = Bench(spec, store.endpoint, stalls, asked.seconds)
            series, pairs = run_measuring(measure(bench, asked.max_in_flight))
        finally:
            terminate(store.pids)
    print_measured(series, asked.stall_ms / 10)
    print_estimated(pairs)
    print(f"\nload average {machine.load_average():.2f} at the end")


if __name__ == "__main__":
    main()
