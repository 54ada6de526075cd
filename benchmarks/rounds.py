"""What the benchmarks beside other tools share: a trial of ours without state machines, turns, ratios, a server."""

from __future__ import annotations

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
from benchmarks.calm import calmest

from stepbench.contracts.identity import trial_tag
from stepbench.contracts.plan import TrialPlan, TrialSpec
from stepbench.drivers.protocol import Outcome
from stepbench.load.closed_loop import Bounds, Client, ClosedLoop, Offer
from stepbench.load.growing_recorder import GrowingRecorder
from stepbench.load.making import operation_maker
from stepbench.load.operations import ClientOperations, Contents
from stepbench.load.quiet import quiet
from stepbench.load.timer import best_timer
from stepbench.load.workload import Stream
from stepbench.local.processes import terminate
from stepbench.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from stepbench.clock import Clock
    from stepbench.contracts.workload import Workload
    from stepbench.drivers.protocol import Operable
    from stepbench.local.processes import LocalStore
    from stepbench.records.columns import Rows

LIMIT_S = 120
_DRAIN_S = 5
MOST_OPERATIONS = 5_000_000
"""Some 220 MB of rows."""

OwnT = TypeVar("OwnT", bound=tuple[float, ...])
OtherT = TypeVar("OtherT", bound=tuple[float, ...])


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
    """A trial with a namespace of its own, whose driver keeps a connection for each of so many clients."""
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
    """Settings without results, which nobody stores here."""
    return Settings(results_table="unused", results_bucket="unused", **endpoints)


def operations_of(spec: TrialSpec, client: int, most: int) -> ClientOperations:
    """What the trial's workload gives a client, the first `most` of them made already."""
    workload = spec.plan.workload
    if workload is None:
        raise ValueError(spec)
    operations = ClientOperations(workload, _contents_of(workload, spec.tag), Stream(0, 0, client))
    operations.prepare(most)
    return operations


@lru_cache(1)
def _contents_of(workload: Workload, tag: str) -> Contents:
    """One for all clients, as in a writer."""
    return Contents(workload, tag)


def makers_of(driver: Operable, spec: TrialSpec, clients: int, most: int, clock: Clock) -> list[Callable[[int], Offer]]:
    """How each client makes its operations."""
    make_operation = operation_maker(driver, clock)

    def maker_of(client: int) -> Callable[[int], Offer]:
        operations = operations_of(spec, client, most)

        def make(sequence: int) -> Offer:
            operation = operations.at(sequence)
            return Offer(operation.kind, make_operation(operation))

        return make

    return [maker_of(client) for client in range(clients)]


async def closed_loop(makers: Sequence[Callable[[int], Offer]], clock: Clock, pace: Pace) -> Rows:
    """All that a writer's clients did; ends the benchmark if anything was not acknowledged."""
    clients = [Client(number, make, pace.pauses_ns(number), pace.each) for number, make in enumerate(makers)]
    recorder, now_ns = GrowingRecorder(), clock.now_ns()
    most = MOST_OPERATIONS if pace.each is None else pace.each * len(clients)
    bounds = Bounds(now_ns, now_ns + round(pace.seconds * 1e9), _DRAIN_S, most)
    with quiet():  # as in a writer
        await ClosedLoop(clients, clock, best_timer(clock), recorder, bounds).run()
    rows = recorder.take()
    if pace.each is None and recorder.begun >= most:
        sys.exit(f"{most:,} operations were begun before {pace.seconds:g} s had passed: shorten the series")
    if (rows.outcome != Outcome.OK).any():
        sys.exit(f"{recorder.counts} ok, failed, unknown; {recorder.errors}")
    return rows


def p50_us(rows: Rows) -> float:
    """Median service time."""
    return float(statistics.median((rows.t2_ns - rows.t1_ns).tolist())) / 1e3


def per_s(rows: Rows) -> float:
    """Operations a second, from the first that was due to the last answer."""
    return rows.sequence.size / (float(rows.t2_ns.max() - rows.t0_ns.min()) / 1e9)


def cpu_s(who: int = resource.RUSAGE_SELF) -> float:
    """CPU so far, of this process or of those that it has ended."""
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


def take_turns(own: Callable[[], OwnT], other: Callable[[], OtherT], rounds: int) -> list[tuple[OwnT, OtherT]]:
    """So many calm rounds of both; the two take turns in who goes first."""
    return [(mine, theirs) for mine, theirs in calmest(rounds, (own, other))]


@contextmanager
def server(
    endpoint: str | None, start: Callable[[Path], LocalStore], discard: Callable[[Path], None] = lambda _directory: None
) -> Iterator[tuple[str, str]]:
    """
    Where it is, and what: the one at the endpoint, or one that is started on the servers' core, and ended afterwards.

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
