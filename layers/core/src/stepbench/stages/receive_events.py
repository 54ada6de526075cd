"""
Entry point `ReceiveEvents`: what a store delivers goes into the results table, as one packed t4 item per trial.

The handler (`functions/receive_events.py`) stamps t4 as its first statement and hands it over; nothing decorates it.
The receiver is opened in the init phase, so that no invocation pays for it.

The answer is `{"batchItemFailures": […]}`, which a stream's mapping reads and the other sources do not mind.

What is imported here makes every cold start longer, and each latency that one is in: the standard library only, and of
that little.
"""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from stepbench.clock import STEP_NS, SystemClock, measure_offset, real_minus_monotonic_ns
from stepbench.errors import RecordsUnavailableError
from stepbench.records.formats.deliveries import T3_RESOLUTION_NS, pack_delivery
from stepbench.records.storage import layout
from stepbench.records.storage.layout import ClockSample
from stepbench.records.storage.receiver_paths import open_bucket, open_table
from stepbench.records.storage.t4_store import T4Log, T4Store
from stepbench.wire.http1.blocking import RetryLimits

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from stepbench.records.formats.deliveries import PackedDelivery

AHEAD_NS = 1_000_000_000
"""
A sandbox that waited so long for its first invocation was made ahead, as Lambda does at will or for provisioned
concurrency: nothing has waited for it, so its first invocation is no cold start. One made on demand is used in
milliseconds.
"""
CLOCK_EVERY_NS = 60_000_000_000
TABLE_RETRY = RetryLimits(attempts=3, connect_s=2, answer_s=5, whole_s=20)
BUCKET_RETRY = TABLE_RETRY._replace(whole_s=40)
"""
Both count from the begin of the invocation, whatever it holds: both have to fail well before the function's time-out
(60 s) does. The bucket so has 20 s of its own. A look-up of a name that begins in time may end some seconds late
(`RES_OPTIONS` in template.yaml).
"""


class Sandbox:
    """
    The memory of one sandbox between invocations.

    ready_ns: the end of its init phase. init_ns: how long that took, from the import of its handler's module. cold:
    nothing was invoked in it yet. started_s: of this invocation, `time.monotonic`. clock_read_ns: trial tag to the time
    of its last clock sample. anchor_ns: its clock minus the monotonic one, at its last invocation.
    """

    def __init__(self, name: str, imported_ns: int, ready_ns: int) -> None:
        self.id = name
        self.cold = True
        self.ready_ns = ready_ns
        self.init_ns = ready_ns - imported_ns
        self.started_s = 0.0
        self.clock_read_ns: dict[str, int] = {}
        self.anchor_ns = real_minus_monotonic_ns()

    def begin(self, t4_ns: int) -> bool:
        """
        Begin an invocation; return whether it is a cold start: the first, for which the sandbox was made.

        The readings of a clock that was set since the last one say nothing any more, so it is read again.
        """
        self.started_s = time.monotonic()
        before_ns, self.anchor_ns = self.anchor_ns, real_minus_monotonic_ns()
        if abs(self.anchor_ns - before_ns) > STEP_NS:
            self.clock_read_ns.clear()
        cold, self.cold = self.cold and t4_ns - self.ready_ns < AHEAD_NS, False
        return cold


class Receiver(NamedTuple):
    """A sandbox and what it writes to. clock_reference: SNTP server, host:port; "" = none."""

    store: T4Store
    log: T4Log
    sandbox: Sandbox
    clock_reference: str = ""


def open_receiver(environ: Mapping[str, str], imported_ns: int) -> Receiver:
    """
    Open a sandbox's receiver, whose handler was loaded at `imported_ns`.

    It connects when there is something to store.
    """
    table = open_table(environ, TABLE_RETRY, lambda: sandbox.started_s)
    store = T4Store(table, open_bucket(environ, BUCKET_RETRY, lambda: sandbox.started_s))
    log = T4Log(lambda tag: table.flag(tag, layout.LOG_T4))
    sandbox = Sandbox(os.urandom(6).hex(), imported_ns, time.time_ns())
    return Receiver(store, log, sandbox, environ.get("CLOCK_REFERENCE", ""))


def receive_events(event: Any, t4_ns: int, request_id: str, receiver: Receiver) -> dict[str, list[dict[str, str]]]:  # noqa: ANN401 -- whatever a store sends
    """
    Record one invocation.

    Raises:
        RecordsUnavailableError: neither table nor bucket took the record; for a stream it is reported as a failed
            batch instead, which is delivered again.
    """
    sandbox = receiver.sandbox
    cold = sandbox.begin(t4_ns)
    delivery = pack_delivery(event, t4_ns)
    items = _items(delivery, sandbox, cold=cold)
    # Before the table has its turn, so that the log also shows an invocation that dies there; only a trial that
    # this sandbox does not know yet has to wait, since asking for its setting takes a request.
    for tag in filter(receiver.log.knows, items):
        receiver.log.add(tag, request_id, t4_ns, items[tag])
    unknown = [tag for tag in items if not receiver.log.knows(tag)]
    table_answers = False
    try:
        table_answers = _put(items, delivery, t4_ns, request_id, receiver.store)
    except RecordsUnavailableError:
        if not delivery.stream_head:
            raise
        return {"batchItemFailures": [{"itemIdentifier": delivery.stream_head}]}
    finally:
        for tag in unknown:
            receiver.log.add(tag, request_id, t4_ns, items[tag], may_request=table_answers)
    if table_answers:
        read_clock(items, t4_ns, receiver)
    return {"batchItemFailures": []}


def _put(
    items: Mapping[str, dict[str, Any]], delivery: PackedDelivery, t4_ns: int, request_id: str, store: T4Store
) -> bool:
    """Store all, and return whether the table took it; one that did not gets no further request, for lack of time."""
    in_table = [store.put(tag, request_id, t4_ns, item) for tag, item in items.items()]
    in_table += [
        store.put_malformed(delivery.store, t4_ns, request_id, place, body) for place, body in delivery.malformed
    ]
    return all(in_table)


def _items(delivery: PackedDelivery, sandbox: Sandbox, *, cold: bool) -> dict[str, dict[str, Any]]:
    """Return the items by the tags of trials."""
    of_all = item_fields(sandbox, delivery.batch, T3_RESOLUTION_NS[delivery.store], cold=cold)
    items = {}
    for tag, (count, entries, tokens, ignored) in delivery.shares.items():
        items[tag] = {"n": count, "entries": entries, **of_all, "ignored": ignored}
        if tokens:
            items[tag]["tokens"] = tokens
    return items


def item_fields(sandbox: Sandbox, batch: int, t3_resolution_ns: int, *, cold: bool) -> dict[str, Any]:
    """Return what all t4 items of an invocation have in common."""
    return {
        "sandbox": sandbox.id,
        "cold": cold,
        "init_ns": sandbox.init_ns,
        "batch": batch,
        "source": "receiver",
        "t3_resolution_ns": t3_resolution_ns,
    }


def read_clock(tags: Iterable[str], t4_ns: int, receiver: Receiver) -> None:
    """Read the clock once for all trials that are due: it is the sandbox's, and a silent reference takes 0.5 s."""
    sandbox = receiver.sandbox
    due = [tag for tag in tags if t4_ns - sandbox.clock_read_ns.get(tag, 0) >= CLOCK_EVERY_NS]
    if not due:
        return
    sandbox.clock_read_ns.update(dict.fromkeys(due, t4_ns))
    offset = measure_offset(receiver.clock_reference, SystemClock())
    if offset is None:
        return
    sample = ClockSample("receiver", sandbox.id, t4_ns, offset.offset_ns, offset.bound_ns)
    for tag in due:
        with contextlib.suppress(RecordsUnavailableError):  # the trial then says "offset unmeasured"
            receiver.store.add_clock(tag, sample)
