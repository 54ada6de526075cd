"""What is done to a process or to its surroundings, and which processes of a running environment it is done to."""

from __future__ import annotations

import contextlib
import re
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import psutil
from tests.end_to_end.deployment import Deployment, sandboxes, tasks
from tests.faults.cases import (
    BACKEND,
    BROKEN_STREAMS,
    CLOSED_TERMINAL,
    COMMAND,
    FILES,
    FULL_DISK,
    HOME,
    KILL,
    REQUESTS,
    SANDBOXES,
    SLOW,
    STOP,
    TASK,
    WRITER,
    Case,
)
from tests.faults.clocks import steppable
from tests.faults.moments import plan_of
from tests.faults.streams import Reader, fill, make_room, pipes, small_disk, terminal
from tests.support.fault_proxy import Limit, Rule, fault_proxy, http1

STOP_S, SLOW_S = 5.0, 4.0
TURN_S = 0.025
"""Half of a slow process's period: SIGSTOP for so long, SIGCONT for so long."""
READ_BYTES_PER_S = 1 << 20
"""So slow the reads of transfers from S3 are made: each takes four seconds, so that a fault meets it on its way."""
CLIENT = re.compile(r"127\.0\.0\.1\((\d+)\)")


def find(process: str, deployment: Deployment, command: int) -> list[psutil.Process]:
    """Return the processes that a case's process is here and now; none where it is not there."""
    if process == COMMAND:
        return [psutil.Process(command)] if psutil.pid_exists(command) else []
    if process == TASK:
        return tasks(deployment)
    if process in SANDBOXES:
        return sandboxes(deployment, process)
    if process == BACKEND:
        return _backends(deployment)
    server = deployment.state.server(process)
    assert server is not None, deployment.state.skipped
    found = filter(None, (each.find() for each in server.processes))
    return [each for each in found if each.name() != "sh"]  # one stands before PostgreSQL, to translate its signals


def _backends(deployment: Deployment) -> list[psutil.Process]:
    """Return PostgreSQL's processes that serve a connection of a writer."""
    ours = {link.laddr.port for each in sandboxes(deployment, WRITER) for link in each.net_connections("tcp")}
    return [child for child in find("postgresql", deployment, 0)[0].children() if _client_port(child) in ours]


def _client_port(backend: psutil.Process) -> int:
    found = CLIENT.search(" ".join(backend.cmdline()))
    return int(found[1]) if found else 0


def _each(number: signal.Signals) -> Callable[[list[psutil.Process]], None]:
    def send(victims: list[psutil.Process]) -> None:
        for victim in victims:
            with contextlib.suppress(psutil.NoSuchProcess):
                victim.send_signal(number)

    return send


@contextlib.contextmanager
def _stopped(victims: list[psutil.Process]) -> Iterator[None]:
    _each(signal.SIGSTOP)(victims)
    try:
        yield
    finally:
        _each(signal.SIGCONT)(victims)


def _stop(victims: list[psutil.Process]) -> None:
    with _stopped(victims):
        time.sleep(STOP_S)


def _slow(victims: list[psutil.Process]) -> None:
    until = time.monotonic() + SLOW_S
    while time.monotonic() < until:
        with _stopped(victims):
            time.sleep(TURN_S)
        time.sleep(TURN_S)


FAULTS: Mapping[str, Callable[[list[psutil.Process]], None]] = {
    KILL: _each(signal.SIGKILL),
    STOP: _stop,
    SLOW: _slow,
    **{name: _each(signal.Signals[name]) for name in REQUESTS},
}


@dataclass(frozen=True)
class Attack:
    """
    An attack on a run that is about to start.

    Attributes:
        deployment: where it is run; its results go to its `out`.
        plan: what is run.
        streams: options of `Popen` for it.
        reader: of what it writes, where that goes to no pipe of `Popen`'s.
        strike: does it to the command with this process number, and returns when it is over.
        repair: what somebody does about it when the run has ended.
    """

    deployment: Deployment
    plan: dict[str, Any]
    strike: Callable[[int], None]
    streams: Mapping[str, Any] = field(default_factory=dict)
    reader: Reader | None = None
    repair: Callable[[], None] = lambda: None


@contextlib.contextmanager
def attack(case: Case, deployment: Deployment) -> Iterator[Attack]:
    """Yield the attack of a case."""
    with _plan(case, deployment) as plan, _attack(case, deployment, plan) as attacked:
        yield attacked


@contextlib.contextmanager
def _plan(case: Case, deployment: Deployment) -> Iterator[dict[str, Any]]:
    """Yield a case's plan; transfers go through a proxy that slows them down."""
    plan = plan_of(case)
    if case.store != FILES:
        yield plan
        return
    with fault_proxy(deployment.endpoint("emulator"), http1) as proxy:
        proxy.follow(Rule(Limit(READ_BYTES_PER_S), b"GET /"))
        target = {"store": "files", "endpoint": proxy.url}
        yield {**plan, "trials": [{**trial, "target": target} for trial in plan["trials"]]}


@contextlib.contextmanager
def _attack(case: Case, deployment: Deployment, plan: dict[str, Any]) -> Iterator[Attack]:
    match case.fault:
        case "closed-terminal" | "broken-streams" as fault:
            with {CLOSED_TERMINAL: terminal, BROKEN_STREAMS: pipes}[fault]() as (reader, streams):
                yield Attack(deployment, plan, lambda _: reader.hang_up(), streams, reader)
        case "full-disk" if case.process == HOME:
            yield Attack(deployment, plan, lambda _: fill(deployment.home), repair=lambda: make_room(deployment.home))
        case "full-disk":
            with small_disk(deployment.out / FULL_DISK) as out:
                yield Attack(replace(deployment, out=out), plan, lambda _: fill(out), repair=lambda: make_room(out))
        case "clock-step":
            with steppable(case.process, deployment) as (stepped, step):
                yield Attack(stepped, plan, lambda _: step())
        case fault:
            yield Attack(deployment, plan, lambda pid: FAULTS[fault](find(case.process, deployment, pid)))
