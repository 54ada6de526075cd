"""
What the receiver adds to an invocation: to its first statement, to its CPU, to the table's bill, to a cold start.

Beside it stands what cannot be avoided or would be usual: `json.loads` of the same event, which the runtime does before
the handler is called; boto3, by which a function in Python stores an item; a process that imports nothing of ours. The
table is the sink, which acknowledges everything.
"""

from __future__ import annotations

import importlib
import itertools
import json
import os
import random
import statistics
import sys
import time
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import boto3
from benchmarks import building, command, rounds
from benchmarks.result import Case, Figure, Goal, Measure
from boto3.dynamodb.types import TypeSerializer
from botocore.config import Config
from tests.samples.records import REF, dynamodb_record, postgresql_delivery, s3_record

from stepbench.contracts.identity import EventId, put_key
from stepbench.model.request import Change, ChangeBatch
from stepbench.records.formats.deliveries import pack_delivery
from stepbench.records.storage import layout
from stepbench.records.storage.t4_store import T4Log, T4Store
from stepbench.records.storage.watch_log import WatchLog
from stepbench.stages.receive_events import Receiver, open_receiver, receive_events

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

BATCHES = (1, 10, 100, 1_000, 10_000)
WRITERS, SHARE = 10, 0.25
WRITE_UNIT_BYTES = 1_024
CPU_S, QUICK_CPU_S = 0.1, 0.01
"""How long each figure's work is repeated in a round, of CPU."""
COLD_STARTS = 2
REQUEST = "6f1c0f0e-7d3a-4a52-9f39-2f1e6b1c9d10"
BOTO3 = f"boto3 {boto3.__version__}"
PARSER = "json.loads of the event"
EMPTY = "a Python process that imports nothing"
FORMERLY, WRITE_UNITS = "36 bytes an entry", "kB (write units)"


class Table(NamedTuple):
    """The results table: ours, boto3's client, and the receiver before it."""

    receiver: Receiver
    boto3: Any
    name: str


def identities(count: int) -> list[EventId]:
    """Return ids in the order in which they come to a shard or a watch, which has one of four of several writers'."""
    drawn, first = random.Random(count), EventId(REF.tag, 1, 0, 0, 0, 0)  # noqa: S311 -- the same each time
    due = (first._replace(writer=place % WRITERS, sequence=place // WRITERS) for place in itertools.count())
    return list(itertools.islice((event for event in due if drawn.random() < SHARE), count))


def event_of(count: int) -> dict[str, Any]:
    """Return a batch of a stream's records, as the quick plans write them: 1 KB each."""
    records = [
        dynamodb_record(event, sequence=str(10**24 + place), at_s=1_700_000_000 + place // 500)
        for place, event in enumerate(identities(count))
    ]
    for record in records:
        record["dynamodb"]["NewImage"]["value"]["S"] += "x" * 845
    return {"Records": records}


def single_events() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield name and event of what comes alone."""
    event = EventId(REF.tag, 1, 2, 0, 0, 1_000)
    yield "S3, one object", {"Records": [s3_record(put_key(event, 59))]}
    yield "PostgreSQL, one row", postgresql_delivery(event)


def cpu_us(work: Callable[[], object], asked: argparse.Namespace, per: int = 1) -> tuple[float]:
    """Return this process's CPU for one of `per` parts of the work, by the least of three series (no neighbours)."""
    repeats, used_s = 1, 0.0
    limit_s = (QUICK_CPU_S if asked.quick else CPU_S) / 3
    while True:
        used_s = _series(work, repeats)
        if used_s >= limit_s:
            return (min(used_s, _series(work, repeats), _series(work, repeats)) / repeats * 1e6 / per,)
        repeats = max(repeats * 2, int(repeats * limit_s / max(used_s, 1e-6)))


def _series(work: Callable[[], object], repeats: int) -> float:
    begun_s = time.process_time()
    for _ in range(repeats):
        work()
    return time.process_time() - begun_s


def beside(
    measure: Measure, own: Callable[[], object], other: Callable[[], object], asked: argparse.Namespace, per: int = 1
) -> Figure:
    """Compare our CPU for each of `per` parts with the peer's."""
    (figure,) = rounds.compare(
        [measure], partial(cpu_us, own, asked, per), partial(cpu_us, other, asked, per), asked.rounds
    )
    return figure


def alone(name: str, work: Callable[[], object], asked: argparse.Namespace, per: int = 1) -> Figure:
    """Measure our CPU for each of `per` parts."""
    return Figure(name=name, unit="µs", ours=tuple(cpu_us(work, asked, per)[0] for _ in range(asked.rounds)))


def delivery_figures(
    event: dict[str, Any], table: Table, asked: argparse.Namespace, words: str = "", per: int = 1
) -> tuple[Figure, Figure]:
    """Measure how an event is read and packed, beside its parser, and the whole invocation."""
    t4_ns, text = time.time_ns(), json.dumps(event)
    read = Measure(f"read and pack{words}", "µs")
    return (
        beside(read, lambda: pack_delivery(event, t4_ns), lambda: json.loads(text), asked, per),
        alone(f"whole invocation{words}", lambda: receive_events(event, t4_ns, REQUEST, table.receiver), asked, per),
    )


def stream_case(count: int, table: Table, asked: argparse.Namespace) -> Case:
    """Measure a batch: to read and pack it, the whole invocation, and what is written."""
    event = event_of(count)
    share = pack_delivery(event, time.time_ns()).shares[REF.tag]
    more = _item_bytes() - 36
    units = tuple(-(-(more + size) // WRITE_UNIT_BYTES) for size in (len(share.entries), 36 * count))
    return Case(
        name=f"DynamoDB stream, batch of {count:,}",
        peer=PARSER,
        figures=(
            *delivery_figures(event, table, asked, ", per record", count),
            Figure(name="room of an item; peer: " + FORMERLY, unit=WRITE_UNITS, ours=(units[0],), peer=(units[1],)),
        ),
    )


def single_case(name: str, event: dict[str, Any], table: Table, asked: argparse.Namespace) -> Case:
    """Measure one arrival an invocation: nearly all of it is the request to the table."""
    return Case(name=name, peer=PARSER, figures=delivery_figures(event, table, asked))


def watch_case(count: int, asked: argparse.Namespace) -> Case:
    """Measure what a watcher's side thread does with what it has seen, but for the requests."""
    changes = tuple(Change(each.text().encode() + b"x" * 849, place) for place, each in enumerate(identities(count)))
    batch = ChangeBatch(time.time_ns(), changes)
    log = WatchLog(REF.tag, "etcd", 0, T4Log(lambda _: None, lambda _: None))
    store = T4Store(_Nowhere(), _Nowhere())  # type: ignore[arg-type]
    work = partial(log.record, [batch], _Nowhere(), store)  # type: ignore[arg-type]
    return Case(
        name=f"etcd watch, {count:,} changes", figures=(alone("read and pack, per change", work, asked, count),)
    )


class _Nowhere:
    """Table and bucket that take everything."""

    def put_t4(self, *_: object) -> None: ...

    put_malformed = add_clock = put_bytes = set_position = put_t4


def put_case(name: str, table: Table, asked: argparse.Namespace) -> Case:
    """Compare storing an item of one arrival by our client and by boto3."""
    item = dict(_item())

    def own() -> None:
        table.receiver.sandbox.started_s = time.monotonic()  # as an invocation has it
        if not table.receiver.store.put(REF.tag, REQUEST, 1, item):
            sys.exit("the table has taken nothing")

    whole = {**item, "pk": layout.t4_pk(REF.tag, 0), "sk": layout.t4_sk(REQUEST, 1), "expires_at": 1_700_000_000}
    stored = {field: TypeSerializer().serialize(value) for field, value in whole.items()}
    other = partial(table.boto3.put_item, TableName=table.name, Item=stored)
    measure = Measure("CPU of a put", "µs", Goal(at_most=0.25))
    return Case(name=name, peer=BOTO3, figures=(beside(measure, own, other, asked),))


def _item() -> dict[str, Any]:
    share = pack_delivery(event_of(1), 1).shares[REF.tag]
    sandbox = {"sandbox": "0123456789ab", "cold": False, "init_ns": 250_000_000, "batch": 1, "source": "receiver"}
    return {"n": 1, "entries": share.entries, **sandbox, "t3_resolution_ns": 1_000_000_000, "ignored": 0}


def _item_bytes() -> int:
    """Count as DynamoDB does: names and values; a number is about a byte for two digits, and one more."""
    keys = {"pk": layout.t4_pk(REF.tag, 0), "sk": layout.t4_sk(REQUEST, 1), "expires_at": 1_700_000_000}
    return sum(len(name) + _value_bytes(value) for name, value in {**keys, **_item()}.items())


def _value_bytes(value: object) -> int:
    if isinstance(value, bool):
        return 1
    return len(str(value)) // 2 + 2 if isinstance(value, int) else len(cast("str | bytes", value))


def first_statement(asked: argparse.Namespace) -> Case:
    """Measure from the call of the handler to t4."""
    entry: Any = importlib.import_module("functions.receive_events")  # reads the environment
    entry.receive_events = lambda _event, t4_ns, _id, _receiver: {"t4": t4_ns}
    context: Any = type("Context", (), {"aws_request_id": REQUEST})

    def once() -> int:
        before_ns = time.time_ns()
        return int(entry.handler({}, context)["t4"]) - before_ns

    ours = tuple(float(statistics.median(once() for _ in range(10_000))) for _ in range(asked.rounds))
    return Case(name="handler to t4", figures=(Figure(name="time", unit="ns", ours=ours),))


def cold_case(asked: argparse.Namespace) -> Case:
    """Compare all that the init phase does, in processes of their own."""
    own = partial(_cold_ms, "import receive_events")
    other = partial(_cold_ms, "import boto3; boto3.client('dynamodb'); boto3.client('s3')")
    figures = rounds.compare([Measure("CPU of the init phase", "ms", Goal(at_most=0.25))], own, other, asked.rounds)
    return Case(name="cold start", peer=f"{BOTO3}, two clients", figures=figures)


def _cold_ms(code: str) -> tuple[float]:
    timed = f"import time; begun = time.process_time(); {code}; print(time.process_time() - begun)"
    line = [sys.executable, "-c", timed]
    return (min(float(command.run_program(line, cwd=command.ROOT / "functions")) for _ in range(COLD_STARTS)) * 1e3,)


def measure(asked: argparse.Namespace) -> command.Found:
    """Measure all cases."""
    with building.sink(asked.tools) as sink:
        plain = _table(f"http://{sink.plain}", None)
        tls = _table(f"https://{sink.tls}", str(sink.authority))
        cases = (
            first_statement(asked),
            cold_case(asked),
            put_case("storing an item, plain", plain, asked),
            put_case("storing an item, TLS", tls, asked),
            *(single_case(name, event, plain, asked) for name, event in single_events()),
            *(stream_case(count, plain, asked) for count in BATCHES),
            *(watch_case(count, asked) for count in BATCHES[2:4]),
        )
    return command.Found(cases, notes=_NOTES)


_NOTES = (
    "CPU is this process's, the least of three series in a round; records are of 1 KB, as the event carries them.",
    "A write unit is 1 KB of what DynamoDB counts of an item; an item may have 400 KB.",
    "The peer of a cold start is what a receiver by boto3 imports and makes; the runtime's own start is in neither.",
    "TLS is loaded with the first item, after its t4: 30 to 70 ms that are not in the init phase, where boto3 has it.",
)


def _table(url: str, authority: str | None) -> Table:
    environ = {
        "AWS_ACCESS_KEY_ID": "none",
        "AWS_SECRET_ACCESS_KEY": "none",
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": url,
        "RESULTS_TABLE": "results",
        "RESULTS_BUCKET": "results",
    }
    os.environ.update(environ)
    if authority is not None:
        environ["AWS_CA_BUNDLE"] = authority
    client = boto3.client("dynamodb", endpoint_url=url, verify=authority, config=Config(parameter_validation=False))
    return Table(open_receiver(environ, time.time_ns()), client, "results")


if __name__ == "__main__":
    command.run("receiver", "What does the receiver add to an invocation, and to a cold start?", measure)
