"""The cases of the fault tour: which process of a run is hit, how, at which moment, and on which store."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

from tests.faults.covering import cover

PREPARE, WARM_UP, MEASURED, DRAIN, ANALYSIS, TEAR_DOWN, BETWEEN = MOMENTS = (
    "prepare",
    "warm-up",
    "measured",
    "drain",
    "analysis",
    "tear-down",
    "between",
)
"""Moments of the trial that is hit; `between`: the trial before it has ended, and it has not begun."""
KILL, STOP, SLOW = ANYTHING = ("kill", "stop", "slow")
"""SIGKILL; SIGSTOP, and SIGCONT 5 s later; both in turn, so that it runs for half of each 50 ms, for 4 s."""
TERMINATE, HANG_UP, INTERRUPT = REQUESTS = ("SIGTERM", "SIGHUP", "SIGINT")
CLOSED_TERMINAL, BROKEN_STREAMS, FULL_DISK = SURROUNDINGS = ("closed-terminal", "broken-streams", "full-disk")
"""What the command writes to is taken away: a terminal, pipes, the disk below --out."""
S3, DYNAMODB, POSTGRESQL, ETCD, REDIS = STORES = ("s3", "dynamodb", "postgresql", "etcd", "redis")
TRIGGERS = (S3, DYNAMODB, POSTGRESQL, ETCD)

EMULATOR, CLOCK, COMMAND = "emulator", "clock-reference", "command"
BACKEND = "postgresql-backend"
WRITER, WATCHER, RECEIVER, ANALYSER = SANDBOXES = ("RunWriter", "WatchChanges", "ReceiveEvents", "AnalyseTrial")


class Process(NamedTuple):
    """What can be done to a process, when it is there, and which stores' trials have it."""

    faults: tuple[str, ...] = ANYTHING
    moments: tuple[str, ...] = MOMENTS
    stores: tuple[str, ...] = STORES
    idle: tuple[str, ...] = ()
    """Moments at which it has nothing to do, beyond the first of those in `moments`, which stands for them."""


PROCESSES = {
    EMULATOR: Process(),
    CLOCK: Process(moments=(PREPARE, WARM_UP, MEASURED, DRAIN), idle=(ANALYSIS, TEAR_DOWN, BETWEEN), stores=TRIGGERS),
    ETCD: Process(stores=(ETCD,)),
    POSTGRESQL: Process(stores=(POSTGRESQL,)),
    BACKEND: Process(moments=(WARM_UP, MEASURED), stores=(POSTGRESQL,)),
    REDIS: Process(stores=(REDIS,)),
    WRITER: Process(moments=(PREPARE, WARM_UP, MEASURED), idle=(DRAIN, ANALYSIS, TEAR_DOWN, BETWEEN)),
    WATCHER: Process(moments=(PREPARE, WARM_UP, MEASURED, DRAIN), idle=(ANALYSIS, TEAR_DOWN, BETWEEN), stores=(ETCD,)),
    RECEIVER: Process(
        moments=(PREPARE, WARM_UP, MEASURED, DRAIN),
        idle=(ANALYSIS, TEAR_DOWN, BETWEEN),
        stores=(S3, DYNAMODB, POSTGRESQL),
    ),
    ANALYSER: Process(moments=(PREPARE, ANALYSIS), idle=(WARM_UP, MEASURED, DRAIN, TEAR_DOWN, BETWEEN)),
    COMMAND: Process(faults=(*ANYTHING, *REQUESTS, *SURROUNDINGS)),
}
"""`command` is `stepbench run` itself; the backend is the one that serves the writer."""


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
            yield Case(name, fault, moment, store)


def _pairs(case: Case) -> list[tuple[str, str]]:
    """Return the process with the fault, and with the moment."""
    return [(case.process, case.fault), (case.process, case.moment)]


def tour(seed: int) -> list[Case]:
    """Return cases that have every process in every way and at every moment of its work; the seed decides the rest."""
    return cover(list(every_case(idle=False)), _pairs, seed)
