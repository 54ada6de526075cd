"""
The least that this machine can do, measured beside the run: what a store's latency is made of before the store.

`async_invoke`: an asynchronous invocation of the receiver by a bare HTTP request to the emulator, until its first
statement; S3, DynamoDB and PostgreSQL triggers all end in one. `etcd_watch`: put until the watch delivers it, with
nothing but gRPC in between. Both at the pace of an unloaded trial, since an idle machine is slower to answer than a
busy one, and half a pace apart, so that neither disturbs the other.
"""

from __future__ import annotations

import http.client
import json
import time
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from stepbench.contracts.identity import CANARY_PHASE, EventId, trial_tag
from stepbench.errors import LocalEnvironmentError
from stepbench.local.stack import RECEIVER
from stepbench.planning import expanded
from stepbench.records.deliveries import POSTGRESQL_SOURCE
from stepbench.records.t4 import ENTRY, Entry, unpack_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from stepbench.clock import Clock
    from stepbench.contracts.plan import Plan
    from stepbench.local.etcd_floor import WatchProbe
    from stepbench.local.stack import Stack

EVENTS, PER_S, WARM_UP = 200, 20, 5
DURATION_S = EVENTS / PER_S
TRIAL = 0xFFFF
"""No trial has this number, so the floors' t4 items are in no trial's way."""
WARM_UP_S, DRAIN_S = 60, 10
Floors = dict[str, dict[str, list[float]]]


@dataclass
class InvokeProbe:
    """Sends asynchronous invocations of the receiver, and finds their t4 in the results table."""

    stack: Stack
    tag: str
    t1_ns: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        address = urlsplit(self.stack.endpoint or "").netloc
        self._connection = http.client.HTTPConnection(address, timeout=30)
        self._path = f"/2015-03-31/functions/{quote(self.stack.outputs[RECEIVER], safe='')}/invocations"

    def send(self, sequence: int) -> None:
        """One event as PostgreSQL's trigger sends it."""
        event = EventId(self.tag, CANARY_PHASE, 0, 0, 0, sequence).text()
        body = json.dumps({"source": POSTGRESQL_SOURCE, "event": event, "t3_us": 0}).encode()
        headers = {"X-Amz-Invocation-Type": "Event", "Content-Type": "application/json"}
        self.t1_ns[sequence] = time.time_ns()
        self._connection.request("POST", self._path, body, headers)
        answer = self._connection.getresponse()
        answer.read()
        if answer.status != HTTPStatus.ACCEPTED:
            message = f"the emulator refused an asynchronous invocation of the receiver: {answer.status}"
            raise LocalEnvironmentError(message)

    def warm_up(self, clock: Clock) -> None:
        """
        One after the other, so that one sandbox starts, not one for each event that comes while the first starts.

        Raises:
            LocalEnvironmentError: an event does not arrive.
        """
        for sequence in range(EVENTS, EVENTS + WARM_UP):
            self.send(sequence)
            if not self._await(sequence - EVENTS + 1, WARM_UP_S, clock):
                message = f"the receiver recorded nothing within {WARM_UP_S} s; see its log on the emulator"
                raise LocalEnvironmentError(message)

    def latencies_ns(self, clock: Clock) -> list[int]:
        """t4 - t1, after all have arrived or the time is up."""
        self._await(len(self.t1_ns), DRAIN_S, clock)
        items = [bytes(item["entries"]) for item in self.stack.table.t4_items(self.tag)]
        return arrivals(items, self.t1_ns)

    def _await(self, wanted: int, limit_s: float, clock: Clock) -> bool:
        deadline_ns = clock.now_ns() + int(limit_s * 1e9)
        while self.stack.table.t4_count(self.tag) < wanted:
            if clock.now_ns() > deadline_ns:
                return False
            clock.sleep(0.1)
        return True

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def arrivals(packed: Sequence[bytes], t1_ns: Mapping[int, int]) -> list[int]:
    """First t4 less t1 of each measured event that arrived, in the order of sending."""
    first: dict[int, int] = {}
    for item in packed:
        for values in ENTRY.iter_unpack(unpack_rows(item, "of the floors")):
            entry = Entry(*values)
            first[entry.sequence] = min(entry.t4_ns, first.get(entry.sequence, entry.t4_ns))
    measured = [sequence for sequence in sorted(t1_ns) if sequence < EVENTS and sequence in first]
    return [first[sequence] - t1_ns[sequence] for sequence in measured]


def measure_floors(stack: Stack, plan: Plan, run_id: str, etcd: str | None, clock: Clock) -> Floors:
    """
    Both floors, as far as the plan has trials to compare with them; takes some ten seconds.

    Args:
        stack: the local one.
        plan: decides which floors are of use.
        run_id: for names of keys.
        etcd: address of the local etcd, if it runs.
        clock: paces the loop.

    Raises:
        LocalEnvironmentError: emulator or etcd do not answer.
    """
    pushes = any(trial.plan.experiment == "trigger" and not trial.plan.pull for trial in expanded(plan))
    invoke = InvokeProbe(stack, trial_tag(run_id, TRIAL)) if pushes else None
    watch = _watch_probe(plan, run_id, etcd) if etcd else None
    probes = [probe for probe in (invoke, watch) if probe is not None]
    try:
        for probe in probes:
            probe.warm_up(clock)
        pace([probe.send for probe in probes], clock)
        found = [("async_invoke", invoke.latencies_ns(clock))] if invoke else []
        found += [("etcd_watch", watch.latencies_ns(clock))] if watch else []
    finally:
        for probe in probes:
            probe.close()
    return {name: {"latencies_ms": [round(ns / 1e6, 6) for ns in values]} for name, values in found}


def _watch_probe(plan: Plan, run_id: str, etcd: str) -> WatchProbe | None:
    targets = [trial.plan.target for trial in expanded(plan) if trial.plan.pull]
    if not any(target.store == "etcd" and target.endpoint is None for target in targets):
        return None
    from stepbench.local.etcd_floor import WatchProbe  # noqa: PLC0415 -- gRPC is an optional library

    return WatchProbe.open(etcd, f"floor/{run_id}/", EVENTS)


def pace(sends: Sequence[Callable[[int], None]], clock: Clock) -> None:
    """Let each of the senders send at the pace, evenly apart from each other."""
    if not sends:
        return
    gap_ns = 10**9 // (PER_S * len(sends))
    start_ns = clock.now_ns()
    for turn in range(EVENTS * len(sends)):
        clock.sleep((start_ns + turn * gap_ns - clock.now_ns()) / 1e9)
        sends[turn % len(sends)](turn // len(sends))
