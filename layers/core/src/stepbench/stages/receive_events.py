"""
Entry point `ReceiveEvents`: what a store delivers goes into the results table, as one packed t4 item per trial.

The handler stamps t4 as its first statement and hands it over; nothing decorates it:

    from time import time_ns

    IMPORTED_NS = time_ns()  # before the imports that make a cold start

    import os
    from stepbench.stages.receive_events import open_receiver, receive_events

    RECEIVER = open_receiver(os.environ, IMPORTED_NS)  # in the init phase, so that no invocation pays for it

    def handler(event: Any, context: LambdaContext) -> dict[str, Any]:
        t4_ns = time_ns()
        return receive_events(event, t4_ns, context.aws_request_id, RECEIVER)

The answer is `{"batchItemFailures": […]}`, which a stream's mapping reads and the other sources do not mind.
"""

from __future__ import annotations

import contextlib
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from botocore.config import Config

from stepbench.clock import SystemClock
from stepbench.clock_offset import measure_offset
from stepbench.errors import RecordsUnavailableError
from stepbench.records import layout
from stepbench.records.deliveries import T3_RESOLUTION_NS, Delivery, parse_delivery
from stepbench.records.t4 import pack
from stepbench.records.t4_log import T4Log
from stepbench.records.t4_store import T4Store, low_level_flag, low_level_put
from stepbench.records.trial_table import ClockSample
from stepbench.stages.services import Services, connect

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

CLOCK_EVERY_NS = 60_000_000_000
IMPATIENT = Config(
    parameter_validation=False,
    retries={"mode": "standard", "total_max_attempts": 3},
    connect_timeout=2,
    read_timeout=5,
)
"""Table and bucket, one after the other, have to fail well before the function's time-out (60 s) does."""


@dataclass
class Sandbox:
    """What one sandbox remembers between invocations."""

    id: str
    imported_ns: int
    cold: bool = True
    init_ns: int = 0
    clock_read_ns: dict[str, int] = field(default_factory=dict)
    """Trial tag to the time of its last clock sample."""


@dataclass(frozen=True)
class Receiver:
    """A sandbox and what it writes to."""

    services: Services
    store: T4Store
    log: T4Log
    sandbox: Sandbox


def open_receiver(environ: Mapping[str, str], imported_ns: int) -> Receiver:
    """Connect, once per sandbox. `imported_ns`: when the handler's module began to load."""
    services = connect(environ, IMPATIENT)
    settings = services.settings
    client = services.aws("dynamodb")
    put = low_level_put(client, settings.results_table, settings.records_ttl_days)
    flag = low_level_flag(client, settings.results_table)
    return Receiver(
        services,
        T4Store(services.table, services.runs, put),
        T4Log(lambda tag: flag(tag, layout.LOG_T4)),
        Sandbox(uuid.uuid4().hex[:12], imported_ns),
    )


def receive_events(event: Any, t4_ns: int, request_id: str, receiver: Receiver) -> dict[str, list[dict[str, str]]]:  # noqa: ANN401 -- whatever a store sends
    """
    Record one invocation.

    Raises:
        RecordsUnavailableError: neither table nor bucket took the record; for a stream it is reported as a failed
            batch instead, which is delivered again.
    """
    sandbox = receiver.sandbox
    cold, sandbox.cold = sandbox.cold, False
    if cold:
        sandbox.init_ns = t4_ns - sandbox.imported_ns
    delivery = parse_delivery(event, t4_ns)
    items = dict(_items(delivery, sandbox, cold=cold))
    # Before the table has its turn, so that the log also tells of an invocation that dies there; only a trial that
    # this sandbox does not know yet has to wait, since asking for its setting takes a request.
    for tag in filter(receiver.log.knows, items):
        receiver.log.add(tag, request_id, t4_ns, items[tag])
    unknown = [tag for tag in items if not receiver.log.knows(tag)]
    try:
        for tag, item in items.items():
            receiver.store.put(tag, request_id, t4_ns, item)
        for place, body in delivery.malformed:
            receiver.store.put_malformed(delivery.store, t4_ns, request_id, place, body)
    except RecordsUnavailableError:
        if not delivery.stream_head:
            raise
        return {"batchItemFailures": [{"itemIdentifier": delivery.stream_head}]}
    finally:
        for tag in unknown:
            receiver.log.add(tag, request_id, t4_ns, items[tag])
    _read_clock(delivery, t4_ns, receiver)
    return {"batchItemFailures": []}


def _items(delivery: Delivery, sandbox: Sandbox, *, cold: bool) -> Iterator[tuple[str, dict[str, Any]]]:
    for tag in _tags(delivery):
        arrivals = [arrival for arrival in delivery.arrivals if arrival.tag == tag]
        item: dict[str, Any] = {
            "n": len(arrivals),
            "entries": pack(arrival.entry for arrival in arrivals),
            "sandbox": sandbox.id,
            "cold": cold,
            "init_ns": sandbox.init_ns,
            "batch": delivery.batch,
            "source": "receiver",
            "t3_resolution_ns": T3_RESOLUTION_NS[delivery.store],
            "ignored": sum(removal.tag == tag for removal in delivery.removals),
        }
        if any(arrival.token for arrival in arrivals):
            item["tokens"] = [arrival.token for arrival in arrivals]
        yield tag, item


def _tags(delivery: Delivery) -> list[str]:
    return sorted({arrival.tag for arrival in delivery.arrivals} | {removal.tag for removal in delivery.removals})


def _read_clock(delivery: Delivery, t4_ns: int, receiver: Receiver) -> None:
    sandbox, services = receiver.sandbox, receiver.services
    for tag in _tags(delivery):
        if t4_ns - sandbox.clock_read_ns.get(tag, 0) < CLOCK_EVERY_NS:
            continue
        sandbox.clock_read_ns[tag] = t4_ns
        offset = measure_offset(services.settings.clock_reference, SystemClock())
        if offset is not None:
            sample = ClockSample("receiver", sandbox.id, t4_ns, offset.offset_ns, offset.bound_ns)
            with contextlib.suppress(RecordsUnavailableError):  # the trial then says "offset unmeasured"
                services.table.add_clock(tag, sample)
