"""
Our etcd drivers beside etcd's own tools: puts by 1, 10 and 100 clients, and from a put to the event on a watch.

    python -m benchmarks.etcd [--rounds N] [--quick] [--profile CLIENTS]

Puts: ours is `EtcdOperations` under `ClosedLoop`, as a writer runs it, without pauses; theirs is `benchmark put` with
as many clients on as many connections. Both put new keys of 59 bytes with 889, in no order, in every round (the tool
draws them from 2^62 numbers). Ours are removed after the round, the tool's stay; each case has a server of its own.

Put to watch: one event at a time, the watch on a connection of its own; theirs is a program of ours on etcd's client
for Go.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import resource
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from benchmarks import building, command, rounds
from benchmarks.result import Case, Goal, Measure

from stepbench.clock import AnchoredClock
from stepbench.contracts.identity import EventId, put_key
from stepbench.contracts.workload import Kind
from stepbench.drivers.etcd.operations import CLIENTS_PER_CHANNEL, EtcdOperations
from stepbench.drivers.etcd.trigger import EtcdDriver
from stepbench.load.process import gc_paused
from stepbench.model.request import Outcome, Request
from stepbench_tools.local.stores.wheels import start_etcd

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from stepbench.model.request import ChangeBatch, Result

QUESTION = "How long do a put and an event on a watch take in etcd, beside its own tools?"
KEY_BYTES, VALUE_BYTES = 59, 889
CLIENTS = (1, 10, 100)
REQUESTS = {1: 2_000, 10: 6_000, 100: 12_000}
WATCHED = 1_500
_QUICK_DIVISOR = 10
_WARM_UP = 200
_KEY_SPACE = 2**62
"""The tool draws from so many keys, none twice; in sequence it would overwrite the same ones in each round."""
_EVENT_LIMIT_S = 10


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
WATCH_MEASURES = (
    Measure("put to watch p50", "µs", Goal(at_most=1.10)),
    Measure("put to watch p99", "µs"),
    Measure("CPU an event", "µs"),
    Measure("t1 to t4, beside put to watch p50", "µs"),
)


async def _puts(endpoint: str, clients: int, requests: int) -> tuple[float, ...]:
    """Run a writer's clients; return what `PUT_FIGURES` names."""
    record = {"shape": "blob", "key_bytes": KEY_BYTES, "value_bytes": VALUE_BYTES}
    spec = rounds.trial({"store": "etcd"}, {"mix": {"insert": 1}, "records": 0, "record": record}, clients)
    driver = EtcdOperations(spec, rounds.settings(etcd_endpoint=endpoint), AnchoredClock())
    rows, cpu_s = await rounds.run_writer(driver, spec, clients, requests // clients)
    await rounds.tear_down(driver)
    p50_us, p99_us = np.quantile((rows.t2_ns - rows.t1_ns) / 1e3, (0.5, 0.99)).tolist()
    return p50_us, p99_us, rounds.per_s(rows), cpu_s / rows.sequence.size * 1e6


def put_by_tool(tool: Path, endpoint: str, clients: int, requests: int) -> tuple[float, ...]:
    """Run the tool; return its own numbers of what `PUT_FIGURES` names."""
    many = [f"--conns={-(-clients // CLIENTS_PER_CHANNEL)}", f"--clients={clients}", f"--total={requests}"]
    sizes = [f"--key-size={KEY_BYTES}", f"--val-size={VALUE_BYTES}", f"--key-space-size={_KEY_SPACE}"]
    before_s = rounds.cpu_s(resource.RUSAGE_CHILDREN)
    said = command.run_program([tool, "put", f"--endpoints={endpoint}", "--precise", *many, *sizes])
    cpu_us = (rounds.cpu_s(resource.RUSAGE_CHILDREN) - before_s) / requests * 1e6
    p50_s, p99_s = (float(re.search(rf"\n\s+{q}% in (\S+) secs", said)[1]) for q in (50, 99))  # type: ignore[index]
    per_s = float(re.search(r"Requests/sec:\s+(\S+)", said)[1])  # type: ignore[index]
    return p50_s * 1e6, p99_s * 1e6, per_s, cpu_us


async def _watched(endpoint: str, events: int) -> tuple[float, ...]:
    """Write and await one event at a time, in one process, as the comparator does; return the measures."""
    spec = rounds.trial({"store": "etcd"}, {"mix": {"insert": 1}, "records": 0}, 1)
    clock, settings = AnchoredClock(), rounds.settings(etcd_endpoint=endpoint)
    driver = EtcdDriver(spec, settings, clock)
    await driver.open()
    took_ns, stamped_ns = [], []
    async with aclosing(driver.watch(None)) as batches:
        await _next(batches)
        with gc_paused():
            for sequence in range(_WARM_UP + events):
                if sequence == _WARM_UP:
                    before_s = rounds.cpu_s()
                identity = EventId(spec.tag, 0, 0, 0, 0, sequence)
                write = Request(Kind.INSERT, put_key(identity, KEY_BYTES), b"x" * VALUE_BYTES)
                began_ns = clock.now_ns()
                acknowledged: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
                driver.prepare_request(write).send(acknowledged.set_result)
                batch = await _next(batches)
                took_ns.append(clock.now_ns() - began_ns)
                written = await acknowledged
                if written.outcome is not Outcome.OK or len(batch.changes) != 1:
                    raise RuntimeError(written)
                stamped_ns.append(batch.t4_ns - written.t1_ns)
            cpu_us = (rounds.cpu_s() - before_s) / events * 1e6
    await driver.close()
    await rounds.tear_down(driver)
    p50_us, p99_us = np.quantile(np.array(took_ns[_WARM_UP:]) / 1e3, (0.5, 0.99)).tolist()
    return p50_us, p99_us, cpu_us, float(np.median(stamped_ns[_WARM_UP:])) / 1e3


async def _next(batches: AsyncIterator[ChangeBatch]) -> ChangeBatch:
    async with asyncio.timeout(_EVENT_LIMIT_S):
        return await anext(batches)


def watched_by_go(program: Path, endpoint: str, events: int) -> tuple[float, ...]:
    """Run the program on etcd's client for Go; return the measures, the last of them once more its p50."""
    sizes = [f"-keybytes={KEY_BYTES}", f"-valuebytes={VALUE_BYTES}"]
    said = json.loads(command.run_program([program, f"-endpoint={endpoint}", f"-total={events}", *sizes]))
    return said["p50_us"], said["p99_us"], said["cpu_us_per_event"], said["p50_us"]


def put_case(asked: argparse.Namespace, tool: Path, clients: int) -> Case:
    """Compare puts by so many clients, ours and the tool's."""
    requests = REQUESTS[clients] // (_QUICK_DIVISOR if asked.quick else 1)
    measures = [Measure(name, unit, goals.get(clients)) for name, unit, goals in PUT_FIGURES]
    with rounds.server(None, start_etcd) as (endpoint, server):
        other = partial(put_by_tool, tool, endpoint, clients, requests)
        own = partial(rounds.measured, _puts, endpoint, clients, requests)
        figures = rounds.compare(measures, own, other, asked.rounds)
    peer = f"etcd's benchmark {building.ETCD_VERSION} ({server})"
    return Case(name=f"put, {rounds.clients_words(clients)}", peer=peer, figures=figures)


def watch_case(asked: argparse.Namespace) -> Case:
    """Compare times from a put to its event on a watch, ours and those of etcd's client for Go."""
    program = building.etcd_watch(asked.tools)
    events = WATCHED // (_QUICK_DIVISOR if asked.quick else 1)
    with rounds.server(None, start_etcd) as (endpoint, server):
        own = partial(rounds.measured, _watched, endpoint, events)
        other = partial(watched_by_go, program, endpoint, events)
        figures = rounds.compare(WATCH_MEASURES, own, other, asked.rounds)
    peer = f"clientv3 {building.ETCD_VERSION} in Go ({server})"
    return Case(name="put to watch", peer=peer, figures=figures)


def measure(asked: argparse.Namespace) -> command.Found:
    """Measure all cases, or with `--profile` none: print where ours spends its time, by function."""
    if asked.profile:
        with rounds.server(None, start_etcd) as (endpoint, _):
            rounds.print_profile(rounds.measured, _puts, endpoint, asked.profile, REQUESTS[asked.profile])
        return command.Found(())
    tool = building.etcd_benchmark(asked.tools)
    return command.Found((*(put_case(asked, tool, clients) for clients in CLIENTS), watch_case(asked)), NOTES)


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--profile", type=int, choices=CLIENTS, help="print a profile of ours, with so many clients")


if __name__ == "__main__":
    command.run("etcd", QUESTION, measure, _options)
