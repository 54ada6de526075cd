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
import subprocess
import sys
import time
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import boto3
from benchmarks import command, machine, rounds, sinks
from benchmarks.result import Case, Figure, Goal
from botocore.config import Config

from stepbench.contracts.identity import EventId, put_key
from stepbench.drivers.protocol import Change, ChangeBatch
from stepbench.records import layout
from stepbench.records.packed_deliveries import pack_delivery
from stepbench.records.t4_log import T4Log
from stepbench.records.t4_store import T4Store
from stepbench.records.watch_log import WatchLog
from stepbench.stages.receive_events import Receiver, open_receiver, receive_events
from stepbench.testing.records import REF, dynamodb_record, postgresql_delivery, s3_record

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Mapping

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
    """In the order in which they come to a shard, or a watch: of several writers' events it has one of four."""
    drawn, first = random.Random(count), EventId(REF.tag, 1, 0, 0, 0, 0)  # noqa: S311 -- the same each time
    due = (first._replace(writer=place % WRITERS, sequence=place // WRITERS) for place in itertools.count())
    return list(itertools.islice((event for event in due if drawn.random() < SHARE), count))


def event_of(count: int) -> dict[str, Any]:
    """A batch of a stream's records, as the quick plans write them: 1 KB each."""
    records = [
        dynamodb_record(event, sequence=str(10**24 + place), at_s=1_700_000_000 + place // 500)
        for place, event in enumerate(identities(count))
    ]
    for record in records:
        record["dynamodb"]["NewImage"]["value"]["S"] += "x" * 845
    return {"Records": records}


def single_events() -> Iterator[tuple[str, dict[str, Any]]]:
    """What comes alone."""
    event = EventId(REF.tag, 1, 2, 0, 0, 1_000)
    yield "S3, one object", {"Records": [s3_record(put_key(event, 59))]}
    yield "PostgreSQL, one row", postgresql_delivery(event)


def cpu_us(work: Callable[[], object], asked: argparse.Namespace) -> tuple[float]:
    """CPU of this process for one piece of work, by the least of three series, so that a neighbour is not counted."""
    repeats, used_s = 1, 0.0
    limit_s = (QUICK_CPU_S if asked.quick else CPU_S) / 3
    while True:
        used_s = _series(work, repeats)
        if used_s >= limit_s:
            return (min(used_s, _series(work, repeats), _series(work, repeats)) / repeats * 1e6,)
        repeats = max(repeats * 2, int(repeats * limit_s / max(used_s, 1e-6)))


def _series(work: Callable[[], object], repeats: int) -> float:
    begun_s = time.process_time()
    for _ in range(repeats):
        work()
    return time.process_time() - begun_s


def beside(  # noqa: PLR0913 -- a figure and what it is measured by
    name: str,
    own: Callable[[], object],
    other: Callable[[], object],
    asked: argparse.Namespace,
    *,
    per: int = 1,
    unit: str = "µs",
    goal: Goal | None = None,
) -> Figure:
    """CPU of ours and of the peer, in turns."""
    pairs = rounds.take_turns(partial(cpu_us, own, asked), partial(cpu_us, other, asked), asked.rounds)
    ours, peer = (tuple(each[side][0] / per for each in pairs) for side in (0, 1))
    return Figure(name=name, unit=unit, ours=ours, peer=peer, goal=goal)


def alone(name: str, work: Callable[[], object], asked: argparse.Namespace, per: int = 1) -> Figure:
    """CPU of ours."""
    return Figure(name=name, unit="µs", ours=tuple(cpu_us(work, asked)[0] / per for _ in range(asked.rounds)))


def stream_case(count: int, table: Table, asked: argparse.Namespace) -> Case:
    """A batch: to read and pack it, the whole invocation, and what is written."""
    event, t4_ns = event_of(count), time.time_ns()
    text = json.dumps(event)
    share = pack_delivery(event, t4_ns).shares[REF.tag]
    more = _item_bytes() - 36
    units = tuple(-(-(more + size) // WRITE_UNIT_BYTES) for size in (len(share.entries), 36 * count))
    return Case(
        name=f"DynamoDB stream, batch of {count:,}",
        peer=PARSER,
        figures=(
            beside(
                "read and pack, per record",
                lambda: pack_delivery(event, t4_ns),
                lambda: json.loads(text),
                asked,
                per=count,
            ),
            alone(
                "whole invocation, per record",
                lambda: receive_events(event, t4_ns, REQUEST, table.receiver),
                asked,
                count,
            ),
            Figure(name="room of an item; peer: " + FORMERLY, unit=WRITE_UNITS, ours=(units[0],), peer=(units[1],)),
        ),
    )


def single_case(name: str, event: dict[str, Any], table: Table, asked: argparse.Namespace) -> Case:
    """One arrival an invocation: nearly all of it is the request to the table."""
    t4_ns, text = time.time_ns(), json.dumps(event)
    return Case(
        name=name,
        peer=PARSER,
        figures=(
            beside("read and pack", lambda: pack_delivery(event, t4_ns), lambda: json.loads(text), asked),
            alone("whole invocation", lambda: receive_events(event, t4_ns, REQUEST, table.receiver), asked),
        ),
    )


def watch_case(count: int, asked: argparse.Namespace) -> Case:
    """What a watcher's side thread does with what it has seen, but for the requests."""
    changes = tuple(Change(each.text().encode() + b"x" * 849, place) for place, each in enumerate(identities(count)))
    batch = ChangeBatch(time.time_ns(), changes)
    log = WatchLog(REF.tag, "etcd", 0, T4Log(lambda _: None, lambda _: None))
    store = T4Store(_Nowhere(), _Nowhere())
    work = partial(log.record, [batch], _Nowhere(), store)  # type: ignore[arg-type]
    return Case(
        name=f"etcd watch, {count:,} changes", figures=(alone("read and pack, per change", work, asked, count),)
    )


class _Nowhere:
    """Table and bucket that take everything."""

    def put_t4(self, *_: object) -> None: ...

    put_malformed = add_clock = put_bytes = set_position = put_t4


def put_case(name: str, table: Table, asked: argparse.Namespace) -> Case:
    """An item of one arrival."""
    item = dict(_item())

    def own() -> None:
        table.receiver.sandbox.begun_s = time.monotonic()  # as an invocation has it
        if not table.receiver.store.put(REF.tag, REQUEST, 1, item):
            sys.exit("the table has taken nothing")

    stored = {**_typed(item), "pk": {"S": layout.t4_pk(REF.tag, 0)}, "sk": {"S": layout.t4_sk(REQUEST, 1)}}
    stored["expires_at"] = {"N": "1700000000"}
    other = partial(table.boto3.put_item, TableName=table.name, Item=stored)
    goal = Goal(at_most=0.25)
    return Case(name=name, peer=BOTO3, figures=(beside("CPU of a put", own, other, asked, goal=goal),))


def _item() -> dict[str, Any]:
    share = pack_delivery(event_of(1), 1).shares[REF.tag]
    sandbox = {"sandbox": "0123456789ab", "cold": False, "init_ns": 250_000_000, "batch": 1, "source": "receiver"}
    return {"n": 1, "entries": share.entries, **sandbox, "t3_resolution_ns": 1_000_000_000, "ignored": 0}


def _typed(item: Mapping[str, Any]) -> dict[str, Any]:
    kinds: dict[type, str] = {bool: "BOOL", str: "S", bytes: "B"}
    return {
        name: {kinds[type(value)]: value} if type(value) in kinds else {"N": str(value)} for name, value in item.items()
    }


def _item_bytes() -> int:
    """As DynamoDB counts: names and values; a number is about a byte for two digits, and one more."""
    keys = {"pk": layout.t4_pk(REF.tag, 0), "sk": layout.t4_sk(REQUEST, 1), "expires_at": 1_700_000_000}
    return sum(len(name) + _value_bytes(value) for name, value in {**keys, **_item()}.items())


def _value_bytes(value: object) -> int:
    if isinstance(value, bool):
        return 1
    return len(str(value)) // 2 + 2 if isinstance(value, int) else len(cast("str | bytes", value))


def first_statement(asked: argparse.Namespace) -> Case:
    """From the call of the handler to t4."""
    entry: Any = importlib.import_module("functions.receive_events")  # reads the environment
    entry.receive_events = lambda _event, t4_ns, _id, _receiver: {"t4": t4_ns}
    context: Any = type("Context", (), {"aws_request_id": REQUEST})

    def once() -> int:
        before_ns = time.time_ns()
        return int(entry.handler({}, context)["t4"]) - before_ns

    ours = tuple(float(statistics.median(once() for _ in range(10_000))) for _ in range(asked.rounds))
    return Case(name="handler to t4", figures=(Figure(name="time", unit="ns", ours=ours),))


def cold_case(asked: argparse.Namespace) -> Case:
    """All that the init phase does, in a process of its own."""
    own = partial(_cold_ms, "import receive_events")
    other = partial(_cold_ms, "import boto3; boto3.client('dynamodb'); boto3.client('s3')")
    pairs = rounds.take_turns(own, other, asked.rounds)
    ours, peer = (tuple(each[side][0] for each in pairs) for side in (0, 1))
    figure = Figure(name="CPU of the init phase", unit="ms", ours=ours, peer=peer, goal=Goal(at_most=0.25))
    return Case(name="cold start", peer=f"{BOTO3}, two clients", figures=(figure,))


def _cold_ms(code: str) -> tuple[float]:
    timed = f"import time; begun = time.process_time(); {code}; print(time.process_time() - begun)"
    found = [
        subprocess.run([sys.executable, "-c", timed], cwd=command.ROOT / "functions", check=True, capture_output=True)
        for _ in range(COLD_STARTS)
    ]
    return (min(float(done.stdout) for done in found) * 1e3,)


def measure(asked: argparse.Namespace) -> command.Found:
    """All cases."""
    with machine.pinned(), sinks.sink(asked.tools) as sink:
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


def main() -> None:
    """Measure, print, keep."""
    command.run("receiver", "What does the receiver add to an invocation, and to a cold start?", measure)


if __name__ == "__main__":
    main()
