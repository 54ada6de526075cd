"""
CPU of a signed PutItem: our DynamoDB client beside Go's SDK and beside Go on raw sockets, plain and with TLS.

    python -m benchmarks.put_item [--rounds N] [--quick]

All put the same items (a key of 59 bytes, a value of 889) into a sink that acknowledges everything, each request sent
when the one before it on its connection was answered, and are asked how much CPU their process has used, by getrusage.
The sink has the other core. Last, what it costs to write down what became of an event, beside the sending of it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import ssl
import statistics
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from benchmarks import building, command
from benchmarks.building import sink
from benchmarks.result import Case, Goal, Measure
from benchmarks.rounds import compare, cpu_s, measured

from stepbench.clock import AnchoredClock
from stepbench.contracts.identity import EventId
from stepbench.contracts.trial import Record
from stepbench.drivers.dynamodb.items import ItemRequests
from stepbench.load.process import gc_paused
from stepbench.load.recorder import Recorder
from stepbench.model.request import Outcome, Result
from stepbench.wire.http1.aws import CredentialSource, SignedClient
from stepbench.wire.http1.pool import HttpPool, PoolLimits, parse_address
from stepbench.wire.http1.sigv4 import Credentials, Signer
from stepbench.workload.payloads import Payloads

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.building import Sink

QUESTION = "How much CPU does a signed PutItem cost, TLS and plain?"
IN_FLIGHT = {"sdk": 10, "raw": 32}
"""Go's default HTTP client keeps ten idle connections, and dials anew for what is in flight beyond them."""
NAMES = {"sdk": "aws-sdk-go-v2", "raw": "Go on raw sockets"}
AT_MOST = {"sdk": 0.25, "raw": 1.5}
REGION, TABLE = "us-east-1", "stepbench-benchmark"
CREDENTIALS = Credentials("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")
RECORD = Record(key_bytes=59, value_bytes=889)
MOST_EVENTS = 2_000_000
_END_LIMIT_S = 60


class Series(NamedTuple):
    """A series goes to a sink, with TLS or not, with so many requests in flight, for so long."""

    at: Sink
    tls: bool
    in_flight: int
    seconds: float
    warm_up_s: float

    @property
    def endpoint(self) -> str:
        """Return HOST:PORT."""
        return self.at.tls if self.tls else self.at.plain


class Putting:
    """PutItems, so many in flight for so long, each made and sent when one before it is answered."""

    def __init__(self, wire: SignedClient) -> None:
        event = EventId("benchmarks-0000", 0, 0, 0, 0, 0)
        self._wire = wire
        self._payload = Payloads(RECORD, event, MOST_EVENTS, seed=7).write
        self._items = ItemRequests(TABLE)
        self._next = self._in_flight = 0
        self._until_ns = 0
        self._ended = asyncio.get_running_loop().create_future()
        self.took_ns: list[int] = []

    async def run(self, in_flight: int, seconds: float) -> None:
        """Put for so long; raise RuntimeError if anything was not acknowledged."""
        self._until_ns = self._wire.now_ns() + round(seconds * 1e9)
        self._in_flight = in_flight
        self._ended = asyncio.get_running_loop().create_future()
        for _ in range(in_flight):
            self._put_one()
        await self._ended

    def _put_one(self) -> None:
        write = self._payload(self._next)
        self._next += 1
        self._items.prepare(self._wire, write).send(self._done)

    def _done(self, written: Result) -> None:
        t1_ns, t2_ns, outcome, _, error, *_ = written
        if outcome is not Outcome.OK:
            self._refuse(error)
            return
        self.took_ns.append(t2_ns - t1_ns)
        if t2_ns < self._until_ns:
            self._put_one()
            return
        self._in_flight -= 1
        if not self._in_flight:
            self._ended.set_result(None)

    def _refuse(self, error: str) -> None:
        if not self._ended.done():
            self._ended.set_exception(RuntimeError(f"a PutItem was not acknowledged: {error}"))


async def put(series: Series) -> tuple[float, float]:
    """Put one series of ours, in this process; return CPU and median latency of a PutItem, in µs."""
    clock = AnchoredClock()
    tls = ssl.create_default_context(cafile=str(series.at.authority)) if series.tls else None
    address = parse_address(f"{'https' if series.tls else 'http'}://{series.endpoint}")
    pool = HttpPool(address, clock, PoolLimits(connections=series.in_flight), tls)
    signer = Signer("dynamodb", REGION, address.authority)
    wire = SignedClient(pool, signer, CredentialSource(lambda: CREDENTIALS), clock)
    await wire.open(series.in_flight)
    try:
        putting = Putting(wire)
        await putting.run(series.in_flight, series.warm_up_s)
        putting.took_ns.clear()
        with gc_paused():
            before_s = cpu_s()
            await putting.run(series.in_flight, series.seconds)
            used_s = cpu_s() - before_s
    finally:
        await wire.close()
    return used_s / len(putting.took_ns) * 1e6, statistics.median(putting.took_ns) / 1e3


def theirs(program: Path, client: str, series: Series) -> tuple[float, float]:
    """Put one series of theirs, in a process of its own; return CPU and median latency of a PutItem, in µs."""
    line: list[object] = [program, "-client", client, "-endpoint", series.endpoint, "-inflight", series.in_flight]
    line += ["-seconds", series.seconds, "-warmup", series.warm_up_s, "-procs", 1]
    line += ["-authority", series.at.authority] if series.tls else []
    said = json.loads(command.run_program(line, _END_LIMIT_S))
    return said["cpu_us_per_request"], said["p50_us"]


def beside(client: str, program: Path, series: Series, rounds: int) -> Case:
    """Compare ours and one of theirs."""
    measures = (Measure("CPU a request", "µs", Goal(at_most=AT_MOST[client])), Measure("latency p50", "µs"))
    name = f"{'TLS' if series.tls else 'plain'}, {series.in_flight} in flight"
    figures = compare(measures, partial(measured, put, series), partial(theirs, program, client, series), rounds)
    return Case(name=name, peer=NAMES[client], figures=figures)


def recorded(events: int) -> tuple[float]:
    """Return the CPU of writing down one event, in µs."""
    recorder, answer = Recorder(np.zeros(events, dtype=np.int64)), Result(1, 2, Outcome.OK)
    with gc_paused():
        before_s = cpu_s()
        for row in range(events):
            recorder.record(row, answer)
        return ((cpu_s() - before_s) / events * 1e6,)


def beside_sending(series: Series, events: int, rounds: int) -> Case:
    """Compare recording with the send that it follows."""
    measures = [Measure("CPU an event", "µs", Goal(at_most=0.03))]
    figures = compare(measures, partial(recorded, events), lambda: measured(put, series)[:1], rounds)
    return Case(name=f"recording, {'TLS' if series.tls else 'plain'}", peer="our PutItem alone", figures=figures)


def measure(asked: argparse.Namespace) -> command.Found:
    """Measure beside both peers, plain and with TLS; then what recording costs."""
    program = building.putitem(asked.tools)
    seconds, warm_up_s = (0.3, 0.2) if asked.quick else (2, 0.5)
    with sink(asked.tools) as at:
        cases = [
            beside(client, program, Series(at, tls, IN_FLIGHT[client], seconds, warm_up_s), asked.rounds)
            for client in IN_FLIGHT
            for tls in (False, True)
        ]
        alone = [Series(at, tls, IN_FLIGHT["raw"], seconds, warm_up_s) for tls in (False, True)]
        cases += [beside_sending(series, round(seconds * 100_000), asked.rounds) for series in alone]
    return command.Found(tuple(cases))


if __name__ == "__main__":
    command.run("put_item", QUESTION, measure)
