"""
Floors are what this machine takes without the store, measured beside the run: most of an unloaded latency.

`async_invoke`: an asynchronous invocation of the receiver by a bare HTTP request to the emulator, until its first
statement; triggers of S3 and PostgreSQL end in one, and DynamoDB's in an invocation without the request. `etcd_watch`:
put until the watch delivers it. Both on an event loop as a writer's, at the pace of an unloaded trial, since an idle
machine is slower to answer than a busy one, and half a pace apart, so that neither disturbs the other.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from stepbench.contracts.experiment import traits_of
from stepbench.contracts.identity import CANARY_PHASE, EventId, trial_tag
from stepbench.errors import LocalEnvironmentError
from stepbench.load.process import gc_paused, run_measuring
from stepbench.planning import expanded
from stepbench.records.formats.deliveries import POSTGRESQL_SOURCE
from stepbench.records.formats.t4 import ENTRY, Entry, unpack_rows
from stepbench.wire.connect import connect_tcp
from stepbench.wire.http1.connection import HttpConnection
from stepbench_tools.local.stack import RECEIVER

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from stepbench.clock import Clock
    from stepbench.contracts.plan import Plan
    from stepbench_tools.local.stack import Stack
    from stepbench_tools.local.watch_floor import WatchProbe

EVENTS, WARM_UP, PER_S = 200, 20, 20
DURATION_S = (WARM_UP + EVENTS) / PER_S
TRIAL = 0xFFFF
"""No trial has this number, so the floors' t4 items are in no trial's way."""
Floors = dict[str, dict[str, list[float]]]


def measure_floors(stack: Stack, plan: Plan, run_id: str, etcd: str | None, clock: Clock) -> Floors:
    """
    Measure both floors, as far as the plan has trials to compare with them; this takes some eleven seconds.

    Args:
        stack: the local one.
        plan: decides which floors are of use.
        run_id: for names of keys.
        etcd: address of the local etcd, if it runs.
        clock: paces the loop.

    Raises:
        LocalEnvironmentError: emulator or etcd do not answer.
    """
    pushes = any(traits_of(trial.plan.experiment).by_trigger and not trial.plan.pull for trial in expanded(plan))
    invoke = InvokeProbe(stack, trial_tag(run_id, TRIAL), EVENTS, clock) if pushes else None
    watched = etcd if etcd and _watches_our_etcd(plan) else None
    found = run_measuring(_measure(invoke, watched, run_id, clock))
    return {name: {"latencies_ms": [round(ns / 1e6, 6) for ns in values]} for name, values in found.items()}


def _watches_our_etcd(plan: Plan) -> bool:
    targets = [trial.plan.target for trial in expanded(plan) if trial.plan.pull]
    return any(target.store == "etcd" and target.endpoint is None for target in targets)


async def _measure(invoke: InvokeProbe | None, etcd: str | None, run_id: str, clock: Clock) -> dict[str, list[int]]:
    probes: dict[str, InvokeProbe | WatchProbe] = {}
    try:
        if invoke is not None:
            probes["async_invoke"] = invoke
            await invoke.start_receiver(first=EVENTS + WARM_UP)
        if etcd is not None:
            from stepbench_tools.local.watch_floor import WatchProbe  # noqa: PLC0415 -- of the optional libraries for stores

            probes["etcd_watch"] = await WatchProbe.open(etcd, f"floor/{run_id}/", EVENTS, clock)
        with gc_paused():
            await pace([probe.send for probe in probes.values()], clock)
        return {name: await probe.latencies_ns() for name, probe in probes.items()}
    finally:
        for probe in probes.values():
            await probe.close()


async def pace(sends: Sequence[Callable[[int], Awaitable[None]]], clock: Clock) -> None:
    """Let each of the senders send at the pace, evenly apart from each other; first what is not measured."""
    if not sends:
        return
    gap_ns = 10**9 // (PER_S * len(sends))
    start_ns = clock.now_ns()
    sequences = [*range(EVENTS, EVENTS + WARM_UP), *range(EVENTS)]
    for turn in range(len(sequences) * len(sends)):
        await clock.sleep_async((start_ns + turn * gap_ns - clock.now_ns()) / 1e9)
        await sends[turn % len(sends)](sequences[turn // len(sends)])


STARTS, AT_A_TIME = 3, 2
START_S, DRAIN_S = 60, 10
_CONNECT_S, _ANSWER_S = 10.0, 30.0
_POLL_S = 0.1


@dataclass
class InvokeProbe:
    """
    The probe invokes the receiver asynchronously, and reads the t4 of each event from the results table.

    `events` are measured, numbered from 0; any after them are warm-up.
    """

    stack: Stack
    tag: str
    events: int
    clock: Clock
    t1_ns: dict[int, int] = field(default_factory=dict)
    _connection: HttpConnection | None = None

    async def send(self, sequence: int) -> None:
        """
        Send one event as PostgreSQL's trigger does, and wait until the emulator has accepted it.

        Raises:
            LocalEnvironmentError: it refuses, or is not there.
        """
        connection = await self._connected()
        exchange = await connection.exchange(self._request(sequence))
        if exchange.answer is None or exchange.answer.status != HTTPStatus.ACCEPTED:
            reason = exchange.error if exchange.answer is None else exchange.answer.status
            message = f"the emulator refused an asynchronous invocation of the receiver: {reason}"
            raise LocalEnvironmentError(message)
        self.t1_ns[sequence] = exchange.t1_ns

    async def start_receiver(self, first: int) -> None:
        """
        Send some events, numbered from `first`, in pairs.

        Of a pair the second finds the receiver busy, so that a second sandbox starts now. It would start while the
        floor is measured otherwise, whenever the machine stands still for a moment. Not more: each takes a processor.

        Raises:
            LocalEnvironmentError: one does not arrive.
        """
        for sent in range(AT_A_TIME, (STARTS + 1) * AT_A_TIME, AT_A_TIME):
            for sequence in range(sent - AT_A_TIME, sent):
                await self.send(first + sequence)
            if not await self._await(sent, START_S):
                message = f"the receiver recorded nothing within {START_S} s; see its log on the emulator"
                raise LocalEnvironmentError(message)
            await self.clock.sleep_async(_POLL_S)  # what it has recorded is there before it is free again

    async def latencies_ns(self) -> list[int]:
        """
        Return t4 - t1, in the order of sending.

        Raises:
            LocalEnvironmentError: not all have arrived in time.
        """
        await self._await(len(self.t1_ns), DRAIN_S)
        items = self.stack.table.t4_items(self.tag)
        found = arrivals([bytes(item["entries"]) for item in items], self.t1_ns, self.events)
        sent = sum(sequence < self.events for sequence in self.t1_ns)
        if len(found) < sent:
            message = (
                f"{sent - len(found)} of {sent} asynchronous invocations did not reach the receiver in {DRAIN_S} s"
            )
            raise LocalEnvironmentError(message)
        return found

    async def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.abort()

    async def _connected(self) -> HttpConnection:
        """Return the open connection, or a new one if the emulator has closed it while the receiver started."""
        if self._connection is None or not self._connection.usable:
            address = urlsplit(self.stack.endpoint or "")
            try:
                async with asyncio.timeout(_CONNECT_S):
                    connected = await connect_tcp(address.hostname or "", address.port or 80)
            except OSError as error:
                message = f"the emulator at {address.netloc} takes no connection: {error or 'no answer'}"
                raise LocalEnvironmentError(message) from error
            self._connection = HttpConnection(connected, self.clock, answer_s=_ANSWER_S)
        return self._connection

    def _request(self, sequence: int) -> bytes:
        """Build the request in one piece: for a body behind the head the emulator reads twice, which takes 0.4 ms."""
        path = f"/2015-03-31/functions/{quote(self.stack.outputs[RECEIVER], safe='')}/invocations"
        event = EventId(self.tag, CANARY_PHASE, 0, 0, 0, sequence).text()
        body = json.dumps({"source": POSTGRESQL_SOURCE, "event": event, "t3_us": 0})
        lines = (
            f"POST {path} HTTP/1.1",
            f"Host: {urlsplit(self.stack.endpoint or '').netloc}",
            "X-Amz-Invocation-Type: Event",
            "Content-Type: application/json",
            f"Content-Length: {len(body)}",
        )
        return "\r\n".join((*lines, "", body)).encode()

    async def _await(self, wanted: int, limit_s: float) -> bool:
        deadline_ns = self.clock.now_ns() + int(limit_s * 1e9)
        while self.stack.table.t4_count(self.tag) < wanted:
            if self.clock.now_ns() > deadline_ns:
                return False
            await self.clock.sleep_async(_POLL_S)
        return True


def arrivals(packed: Sequence[bytes], t1_ns: Mapping[int, int], events: int) -> list[int]:
    """Return the first t4 less t1 of each measured event that arrived, in the order of sending."""
    first: dict[int, int] = {}
    for item in packed:
        for values in ENTRY.iter_unpack(unpack_rows(item, "of the floors")):
            entry = Entry(*values)
            first[entry.sequence] = min(entry.t4_ns, first.get(entry.sequence, entry.t4_ns))
    measured = [sequence for sequence in sorted(t1_ns) if sequence < events and sequence in first]
    return [first[sequence] - t1_ns[sequence] for sequence in measured]
