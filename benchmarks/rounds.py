"""Trials of ours without state machines, and turns with another tool, for the benchmarks beside other tools."""

from __future__ import annotations

import cProfile
import pstats
import resource
import statistics
import sys
import tempfile
import uuid
from contextlib import contextmanager
from functools import lru_cache
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from benchmarks import machine
from benchmarks.command import LIMIT_S
from benchmarks.result import figures_of

from stepbench.clock import AnchoredClock
from stepbench.contracts.identity import trial_tag
from stepbench.contracts.plan import TrialPlan, TrialSpec
from stepbench.drivers.protocol import Warmable
from stepbench.load.closed_loop import Client, ClosedLoop, LoopBounds, Offer
from stepbench.load.process import gc_paused, run_measuring
from stepbench.load.recorder import GrowingRecorder
from stepbench.load.timer import best_timer
from stepbench.model.request import Outcome
from stepbench.settings import Settings
from stepbench.workload.choices import ClientStream
from stepbench.workload.operations import ClientOperations, Contents
from stepbench_tools.local.processes import terminate

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence

    from benchmarks.result import Figure, Measure

    from stepbench.clock import Clock
    from stepbench.contracts.workload import Workload
    from stepbench.drivers.protocol import Driver
    from stepbench.records.formats.columns import Rows
    from stepbench_tools.local.stores import LocalStore

_DRAIN_S = 5
MOST_OPERATIONS = 5_000_000
"""Some 220 MB of rows."""

ResultT = TypeVar("ResultT")


class Pace(NamedTuple):
    """
    How long clients go on, and how long they pause.

    seconds: nothing is offered after that. each: operations of each client, if they are bounded. pauses_ns: of the
    client with this number, before each operation.
    """

    seconds: float = LIMIT_S
    each: int | None = None
    pauses_ns: Callable[[int], Iterator[int]] = lambda _client: repeat(0)


def trial(target: Mapping[str, Any], workload: Mapping[str, Any], clients: int) -> TrialSpec:
    """Return a trial with a namespace of its own, whose driver keeps a connection for each of so many clients."""
    plan = TrialPlan.model_validate(
        {
            "experiment": "operations",
            "target": target,
            "workload": workload,
            "phases": [{"name": "load", "closed": {"clients": clients, "duration_s": LIMIT_S}}],
        }
    )
    tag = trial_tag(str(uuid.uuid4()), 0)
    return TrialSpec(run_id="benchmark", index=0, name="benchmark", tag=tag, plan=plan, estimate_usd=0)


def settings(**endpoints: str) -> Settings:
    """Return settings without results, which nobody stores here."""
    return Settings(results_table="unused", results_bucket="unused", **endpoints)


def operations_of(spec: TrialSpec, client: int, most: int) -> ClientOperations:
    """Return a client's operations by the trial's workload, the first `most` of them made already."""
    workload = spec.plan.workload
    if workload is None:
        raise ValueError(spec)
    operations = ClientOperations(workload, _contents_of(workload, spec.tag), ClientStream(0, 0, client))
    operations.prepare(most)
    return operations


@lru_cache(1)
def _contents_of(workload: Workload, tag: str) -> Contents:
    """Return the contents of records, one object for all clients, as in a writer."""
    return Contents(workload, tag)


def makers_of(driver: Driver, spec: TrialSpec, clients: int, most: int) -> list[Callable[[int], Offer]]:
    """Return a function for each client, which prepares its operations."""
    prepare = driver.prepare_request

    def maker_of(client: int) -> Callable[[int], Offer]:
        operations = operations_of(spec, client, most)

        def make(sequence: int) -> Offer:
            operation = operations.at(sequence)
            return Offer(operation.kind, prepare(operation))

        return make

    return [maker_of(client) for client in range(clients)]


async def closed_loop(makers: Sequence[Callable[[int], Offer]], clock: Clock, pace: Pace) -> Rows:
    """Run a writer's clients, and return their rows; end the benchmark if anything was not acknowledged."""
    clients = [Client(number, make, pace.pauses_ns(number), pace.each) for number, make in enumerate(makers)]
    recorder, now_ns = GrowingRecorder(), clock.now_ns()
    most = MOST_OPERATIONS if pace.each is None else pace.each * len(clients)
    bounds = LoopBounds(now_ns, now_ns + round(pace.seconds * 1e9), _DRAIN_S, most)
    with gc_paused():  # as in a writer
        await ClosedLoop(clients, clock, best_timer(clock), recorder, bounds).run()
    rows = recorder.take()
    if pace.each is None and recorder.started >= most:
        sys.exit(f"{most:,} operations were started before {pace.seconds:g} s had passed: shorten the series")
    if (rows.outcome != Outcome.OK).any():
        sys.exit(f"{recorder.counts} ok, failed, unknown; {recorder.errors}")
    return rows


async def run_writer(driver: Driver, spec: TrialSpec, clients: int, each: int) -> tuple[Rows, float]:
    """Run a writer's clients without pauses; return their rows, and the CPU seconds once all were connected."""
    makers = makers_of(driver, spec, clients, each)
    await driver.open()
    try:
        if isinstance(driver, Warmable):
            await driver.warm_up()
        before_s = cpu_s()
        rows = await closed_loop(makers, AnchoredClock(), Pace(each=each))
        return rows, cpu_s() - before_s
    finally:
        await driver.close()


async def tear_down(driver: Driver) -> None:
    """Remove a trial's records, and close its driver."""
    while not await driver.tear_down():
        pass
    await driver.close()


def p50_us(rows: Rows) -> float:
    """Return the median service time."""
    return float(statistics.median((rows.t2_ns - rows.t1_ns).tolist())) / 1e3


def per_s(rows: Rows) -> float:
    """Return operations a second, from the first that was due to the last answer."""
    return rows.sequence.size / (float(rows.t2_ns.max() - rows.t0_ns.min()) / 1e9)


def cpu_s(who: int = resource.RUSAGE_SELF) -> float:
    """Return the CPU time so far, of this process or of those that it has ended."""
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


def compare(
    measures: Sequence[Measure],
    own: Callable[[], Sequence[float]],
    other: Callable[[], Sequence[float]],
    rounds: int,
) -> tuple[Figure, ...]:
    """Return the figures of so many calm rounds; the two take turns in who goes first, and give a number a measure."""
    return figures_of(measures, machine.calmest(rounds, (own, other)))


def measured(work: Callable[..., Coroutine[Any, Any, ResultT]], *arguments: object) -> ResultT:
    """Return what a coroutine function returns, run on a writer's event loop."""
    return run_measuring(work(*arguments))


def clients_words(clients: int) -> str:
    """Return how many clients, as the name of a case has it."""
    return f"{clients} client{'s' * (clients > 1)}"


def address_of(endpoint: str) -> tuple[str, str, str]:
    """Return host, port and database (empty if there is none) of HOST:PORT/DATABASE."""
    address, _, database = endpoint.partition("/")
    host, _, port = address.rpartition(":")
    return host, port, database


def print_profile(work: Callable[..., object], *arguments: object) -> None:
    """Print where a piece of work spends its time, by function."""
    profiler = cProfile.Profile()
    profiler.runcall(work, *arguments)
    pstats.Stats(profiler).sort_stats("tottime").print_stats(30)


@contextmanager
def server(
    endpoint: str | None, start: Callable[[Path], LocalStore], discard: Callable[[Path], None] = lambda _directory: None
) -> Iterator[tuple[str, str]]:
    """
    Yield endpoint and name of a server: the one given, or one that is started on the servers' core, and ended.

    discard: removes what it has left outside its directory.
    """
    if endpoint:
        yield endpoint, endpoint
        return
    with tempfile.TemporaryDirectory() as directory:
        store = start(Path(directory))
        try:
            machine.pin_pids(store.pids)
            yield store.endpoint, f"{store.name} {store.version}"
        finally:
            terminate(store.pids)
            discard(Path(directory))
