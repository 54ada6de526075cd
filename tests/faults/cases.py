"""The cases of the fault tour: which process of a run is hit, how, at which moment, and on which store."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

from tests.faults.covering import cover

PREPARE, WARM_UP, MEASURED, DRAIN, ANALYSIS, TEAR_DOWN, BETWEEN, FETCH = MOMENTS = (
    "prepare",
    "warm-up",
    "measured",
    "drain",
    "analysis",
    "tear-down",
    "between",
    "fetch",
)
"""
Moments of the trial that is hit.

`between`: the trial before it has ended, and it has not begun. `fetch`: its run has ended, and its results are fetched.
"""
KILL, STOP, SLOW = ANYTHING = ("kill", "stop", "slow")
"""SIGKILL; SIGSTOP, and SIGCONT 5 s later; both in turn, so that it runs for half of each 50 ms, for 4 s."""
TERMINATE, HANG_UP, INTERRUPT = REQUESTS = ("SIGTERM", "SIGHUP", "SIGINT")
CLOSED_TERMINAL, BROKEN_STREAMS, FULL_DISK = SURROUNDINGS = ("closed-terminal", "broken-streams", "full-disk")
STREAMS = SURROUNDINGS[:2]
"""What the command writes to is taken away: a terminal, pipes, the disk below --out or that of STEPBENCH_HOME."""
CLOCK_STEP = "clock-step"
"""The process's clock, and no other, is set forward in the middle."""
S3, DYNAMODB, POSTGRESQL, ETCD, REDIS = STORES = ("s3", "dynamodb", "postgresql", "etcd", "redis")
TRIGGERS = (S3, DYNAMODB, POSTGRESQL, ETCD)
FILES = "files"
"""Of transfers, from S3 and from EFS, in Lambda and on Fargate: they have neither a warm-up nor a drain."""

EMULATOR, CLOCK, COMMAND, HOME = "emulator", "clock-reference", "command", "home"
BACKEND, TASK = "postgresql-backend", "transfer-task"
WRITER, WATCHER, RECEIVER, ANALYSER, TRANSFER = SANDBOXES = (
    "RunWriter",
    "WatchChanges",
    "ReceiveEvents",
    "AnalyseTrial",
    "RunTransfer",
)


class Process(NamedTuple):
    """What can be done to a process, when it is there, and which stores' trials have it."""

    faults: tuple[str, ...] = ANYTHING
    moments: tuple[str, ...] = MOMENTS[:-1]
    stores: tuple[str, ...] = STORES
    idle: tuple[str, ...] = (FETCH,)
    """Moments at which it has nothing to do, beyond the first of those in `moments`, which stands for them."""


PROCESSES = {
    EMULATOR: Process(moments=MOMENTS, idle=(), stores=(*STORES, FILES)),
    CLOCK: Process(moments=(PREPARE, WARM_UP, MEASURED, DRAIN), idle=(ANALYSIS, TEAR_DOWN, BETWEEN), stores=TRIGGERS),
    ETCD: Process(stores=(ETCD,)),
    POSTGRESQL: Process(stores=(POSTGRESQL,)),
    BACKEND: Process(moments=(WARM_UP, MEASURED), idle=(), stores=(POSTGRESQL,)),
    REDIS: Process(stores=(REDIS,)),
    WRITER: Process(
        faults=(*ANYTHING, CLOCK_STEP),
        moments=(PREPARE, WARM_UP, MEASURED),
        idle=(DRAIN, ANALYSIS, TEAR_DOWN, BETWEEN),
    ),
    WATCHER: Process(
        faults=(*ANYTHING, CLOCK_STEP),
        moments=(PREPARE, WARM_UP, MEASURED, DRAIN),
        idle=(ANALYSIS, TEAR_DOWN, BETWEEN),
        stores=(ETCD,),
    ),
    RECEIVER: Process(
        faults=(*ANYTHING, CLOCK_STEP),
        moments=(PREPARE, WARM_UP, MEASURED, DRAIN),
        idle=(ANALYSIS, TEAR_DOWN, BETWEEN),
        stores=(S3, DYNAMODB, POSTGRESQL),
    ),
    ANALYSER: Process(moments=(PREPARE, ANALYSIS), idle=(WARM_UP, MEASURED, DRAIN, TEAR_DOWN, BETWEEN)),
    TRANSFER: Process(moments=(MEASURED,), idle=(), stores=(FILES,)),
    TASK: Process(moments=(MEASURED,), idle=(), stores=(FILES,)),
    COMMAND: Process(
        faults=(*ANYTHING, *REQUESTS, *SURROUNDINGS, CLOCK_STEP), moments=MOMENTS, idle=(), stores=(*STORES, FILES)
    ),
    HOME: Process(
        faults=(FULL_DISK,),
        moments=(PREPARE, MEASURED, ANALYSIS, TEAR_DOWN, FETCH),
        idle=(WARM_UP, DRAIN, BETWEEN),
        stores=TRIGGERS,
    ),
}
"""
`command` is `stepbench run` itself; the backend is the one that serves the writer; a transfer's task is one on Fargate.

`home` is no process: the disk of STEPBENCH_HOME, to which all servers write.
"""


class Case(NamedTuple):
    """One process is hit by one fault at one moment of a trial on one store."""

    process: str
    fault: str
    moment: str
    store: str

    def __str__(self) -> str:
        """Return its name, as tests and plans have it."""
        return "-".join(self)


def every_case(*, idle: bool) -> Iterator[Case]:
    """Yield the whole product, as far as the process is there; `idle`: also when it has nothing to do."""
    for name, process in PROCESSES.items():
        moments = process.moments + (process.idle if idle else ())
        for fault, moment, store in product(process.faults, moments, process.stores):
            if store != FILES or moment not in {WARM_UP, DRAIN}:
                yield Case(name, fault, moment, store)


def _pairs(case: Case) -> list[tuple[str, str]]:
    """
    Return what a case covers: the process with the fault and the moment, the moment with the store and the fault.

    Signals that ask the command to end are one kind of fault there, and so are the streams that it loses: with a cell
    for each of them at each moment, the tour would take an hour.
    """
    fault = "request" if case.fault in REQUESTS else "streams" if case.fault in STREAMS else case.fault
    pairs = [(case.process, case.fault), (case.process, case.moment), (case.moment, case.store)]
    return [*pairs, (fault, case.moment)]


def tour(seed: int) -> list[Case]:
    """Return cases that have every process in every way, and each fault and store at every moment of the work."""
    return cover(list(every_case(idle=False)), _pairs, seed)
