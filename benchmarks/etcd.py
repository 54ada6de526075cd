"""
Our etcd drivers beside etcd's own tools: puts by 1, 10 and 100 clients, and from a put to the event on a watch.

    python -m benchmarks.etcd [--rounds N] [--quick] [--profile CLIENTS]

Puts: ours is `EtcdOperations` under `ClosedLoop`, as a writer runs it, without pauses; theirs is `benchmark put` with
as many clients on as many connections. Both put new keys of 59 bytes with 889, in no order, in every round (the tool
draws them from 2^62 numbers). Ours are removed after the round, the tool's stay; each case has a server of its own.

Put to watch: one event at a time, the watch on a connection of its own: ours from t1 to t4, theirs by a program of ours
on etcd's client for Go. (`benchmark watch-latency` starts its clock only after the put was acknowledged.)

CPU is the client's: ours under load, the tool's of its whole process, whose start takes some 10 ms.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import json
import pstats
import re
import resource
import subprocess
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from benchmarks import building, command, machine, rounds
from benchmarks.result import Case, Figure, Goal

from stepbench.clock import AnchoredClock
from stepbench.contracts.identity import EventId, put_key
from stepbench.drivers.etcd import EtcdDriver
from stepbench.drivers.operations.etcd import CLIENTS_PER_CHANNEL, EtcdOperations
from stepbench.drivers.protocol import Outcome, Write
from stepbench.load.quiet import quiet
from stepbench.local.etcd import start_etcd
from stepbench.stages.event_loop import run_measuring

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from stepbench.drivers.protocol import ChangeBatch, Written

QUESTION = "How long do a put and an event on a watch take in etcd, beside its own tools?"
KEY_BYTES, VALUE_BYTES = 59, 889
CLIENTS = (1, 10, 100)
REQUESTS = {1: 2_000, 10: 6_000, 100: 12_000}
WATCHED = 1_500
_QUICK_DIVISOR = 10
_WARM_UP = 200
_KEY_SPACE = 2**62
"""Of which the tool draws: none twice. In sequence it would begin with the same keys each round, and overwrite them."""
_EVENT_LIMIT_S = 10


class Puts(NamedTuple):
    """One round of puts, of one client."""

    p50_us: float
    p99_us: float
    per_s: float
    cpu_us: float


class Watched(NamedTuple):
    """One round of events, from put to watch."""

    p50_us: float
    p99_us: float
    cpu_us: float
    stamped_us: float


NOTES = (
    "A put's p50 is from socket to socket; the tool's holds encoding and hand-over, as our operations a second do.",
    "Put to watch: from before the write is made until its event is at hand, for both; t1 to t4 is what a trial tells.",
    "Put to watch: beside a program on etcd's client for Go: `benchmark watch-latency` starts its clock after the ack.",
    "The tool's CPU is of its whole process, with its start of some 10 ms; ours is of the load.",
)
PUT_FIGURES: tuple[tuple[str, str, dict[int, Goal]], ...] = (
    ("latency p50", "µs", {1: Goal(at_most=1.10)}),
    ("latency p99", "µs", {}),
    ("operations a second", "1/s", {100: Goal(at_least=0.9)}),
    ("CPU an operation", "µs", {}),
)


def put_by_us(endpoint: str, clients: int, requests: int) -> Puts:
    """A writer's clients, on its event loop."""
    return run_measuring(_puts(endpoint, clients, requests))


async def _puts(endpoint: str, clients: int, requests: int) -> Puts:
    record = {"shape": "blob", "key_bytes": KEY_BYTES, "value_bytes": VALUE_BYTES}
    spec = rounds.trial({"store": "etcd"}, {"mix": {"insert": 1}, "records": 0, "record": record}, clients)
    clock, each = AnchoredClock(), requests // clients
    driver = EtcdOperations(spec, rounds.settings(etcd_endpoint=endpoint), clock)
    makers = rounds.makers_of(driver, spec, clients, each, clock)
    await driver.open()
    await driver.warm_up()
    before_s = rounds.cpu_s()
    rows = await rounds.closed_loop(makers, clock, rounds.Pace(each=each))
    cpu_us = (rounds.cpu_s() - before_s) / rows.sequence.size * 1e6
    await driver.close()
    while not await driver.tear_down():
        pass
    p50_us, p99_us = np.quantile((rows.t2_ns - rows.t1_ns) / 1e3, (0.5, 0.99)).tolist()
    return Puts(p50_us, p99_us, rounds.per_s(rows), cpu_us)


def put_by_tool(tool: Path, endpoint: str, clients: int, requests: int) -> Puts:
    """The tool's own figures."""
    many = [f"--conns={-(-clients // CLIENTS_PER_CHANNEL)}", f"--clients={clients}", f"--total={requests}"]
    sizes = [f"--key-size={KEY_BYTES}", f"--val-size={VALUE_BYTES}", f"--key-space-size={_KEY_SPACE}"]
    before_s = rounds.cpu_s(resource.RUSAGE_CHILDREN)
    said = _run([tool, "put", f"--endpoints={endpoint}", "--precise", *many, *sizes])
    cpu_us = (rounds.cpu_s(resource.RUSAGE_CHILDREN) - before_s) / requests * 1e6
    p50_s, p99_s = (float(re.search(rf"\n\s+{q}% in (\S+) secs", said)[1]) for q in (50, 99))  # type: ignore[index]
    per_s = float(re.search(r"Requests/sec:\s+(\S+)", said)[1])  # type: ignore[index]
    return Puts(p50_s * 1e6, p99_s * 1e6, per_s, cpu_us)


def watched_by_us(endpoint: str, events: int) -> Watched:
    """One event at a time, in one process, as the comparator."""
    return run_measuring(_watched(endpoint, events))


async def _watched(endpoint: str, events: int) -> Watched:
    spec = rounds.trial({"store": "etcd"}, {"mix": {"insert": 1}, "records": 0}, 1)
    clock, settings = AnchoredClock(), rounds.settings(etcd_endpoint=endpoint)
    driver = EtcdDriver(spec, settings, clock)
    await driver.open()
    took_ns, stamped_ns = [], []
    async with aclosing(driver.watch(None)) as batches:
        await _next(batches)
        with quiet():
            for sequence in range(_WARM_UP + events):
                if sequence == _WARM_UP:
                    before_s = rounds.cpu_s()
                identity = EventId(spec.tag, 0, 0, 0, 0, sequence)
                write = Write(put_key(identity, KEY_BYTES), b"x" * VALUE_BYTES)
                began_ns = clock.now_ns()
                acknowledged: asyncio.Future[Written] = asyncio.get_running_loop().create_future()
                driver.make(write).send(acknowledged.set_result)
                batch = await _next(batches)
                took_ns.append(clock.now_ns() - began_ns)
                written = await acknowledged
                if written.outcome is not Outcome.OK or len(batch.changes) != 1:
                    raise RuntimeError(written)
                stamped_ns.append(batch.t4_ns - written.t1_ns)
            cpu_us = (rounds.cpu_s() - before_s) / events * 1e6
    await driver.close()
    while not await driver.tear_down():
        pass
    p50_us, p99_us = np.quantile(np.array(took_ns[_WARM_UP:]) / 1e3, (0.5, 0.99)).tolist()
    return Watched(p50_us, p99_us, cpu_us, float(np.median(stamped_ns[_WARM_UP:])) / 1e3)


async def _next(batches: AsyncIterator[ChangeBatch]) -> ChangeBatch:
    async with asyncio.timeout(_EVENT_LIMIT_S):
        return await anext(batches)


def watched_by_go(program: Path, endpoint: str, events: int) -> Watched:
    """Etcd's client for Go."""
    sizes = [f"-keybytes={KEY_BYTES}", f"-valuebytes={VALUE_BYTES}"]
    said = json.loads(_run([program, f"-endpoint={endpoint}", f"-total={events}", *sizes]))
    return Watched(said["p50_us"], said["p99_us"], said["cpu_us_per_event"], said["p50_us"])


def _run(line: Sequence[str | Path]) -> str:
    on_core = machine.on_core(line, machine.LOAD_CORE)
    return subprocess.run(on_core, check=True, capture_output=True, text=True, timeout=rounds.LIMIT_S).stdout


def put_case(asked: argparse.Namespace, tool: Path, clients: int) -> Case:
    """So many clients, ours and the tool's in turns."""
    requests = REQUESTS[clients] // (_QUICK_DIVISOR if asked.quick else 1)
    with rounds.server(None, start_etcd) as (endpoint, server):
        own = partial(put_by_us, endpoint, clients, requests)
        pairs = rounds.take_turns(own, partial(put_by_tool, tool, endpoint, clients, requests), asked.rounds)
    figures = tuple(
        Figure(
            name=name,
            unit=unit,
            ours=tuple(own[at] for own, _ in pairs),
            peer=tuple(other[at] for _, other in pairs),
            goal=goals.get(clients),
        )
        for at, (name, unit, goals) in enumerate(PUT_FIGURES)
    )
    peer = f"etcd's benchmark {building.ETCD_VERSION} ({server})"
    return Case(name=f"put, {clients} client{'s' * (clients > 1)}", peer=peer, figures=figures)


def watch_case(asked: argparse.Namespace) -> Case:
    """From put to watch."""
    program = building.etcd_watch(asked.tools)
    events = WATCHED // (_QUICK_DIVISOR if asked.quick else 1)
    with rounds.server(None, start_etcd) as (endpoint, server):
        own = partial(watched_by_us, endpoint, events)
        pairs = rounds.take_turns(own, partial(watched_by_go, program, endpoint, events), asked.rounds)
    named = (
        ("put to watch p50", Goal(at_most=1.10)),
        ("put to watch p99", None),
        ("CPU an event", None),
        ("t1 to t4, beside put to watch p50", None),
    )
    figures = tuple(
        Figure(
            name=name,
            unit="µs",
            ours=tuple(own[at] for own, _ in pairs),
            peer=tuple(other[at] for _, other in pairs),
            goal=goal,
        )
        for at, (name, goal) in enumerate(named)
    )
    return Case(name="put to watch", peer=f"clientv3 {building.ETCD_VERSION} in Go ({server})", figures=figures)


def measure(asked: argparse.Namespace) -> command.Found:
    """All cases, or with `--profile` none: where ours spends its time, by function."""
    if asked.profile:
        with rounds.server(None, start_etcd) as (endpoint, _):
            profiler = cProfile.Profile()
            profiler.runcall(put_by_us, endpoint, asked.profile, REQUESTS[asked.profile])
        pstats.Stats(profiler).sort_stats("tottime").print_stats(30)
        return command.Found(())
    tool = building.etcd_benchmark(asked.tools)
    return command.Found((*(put_case(asked, tool, clients) for clients in CLIENTS), watch_case(asked)), NOTES)


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--profile", type=int, choices=CLIENTS, help="print a profile of ours, with so many clients")


if __name__ == "__main__":
    command.run("etcd", QUESTION, measure, _options)
