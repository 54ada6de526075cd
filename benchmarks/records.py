"""
What records cost: a writer's memory over a slice of ten minutes, bytes in its files, and reading a results table back.

    python -m benchmarks.records [--rounds N] [--quick]

Slices are recorded in processes of their own (`benchmarks.recorded_slice`), without a load, so that nothing else is in
their memory. The results table is read from a server in this process that has one page for everybody.
"""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import time
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any

import boto3
from benchmarks import command, machine, rounds
from benchmarks.recorded_slice import RATE_PER_S, Recorded
from benchmarks.result import Case, Figure, Goal
from botocore.config import Config

from stepbench.records import layout
from stepbench.records.shards import ShardReader
from stepbench.records.t4 import Entry, pack, parse_item
from stepbench.records.trial_table import TrialTable
from stepbench.testing.lambda_api import lambda_api
from stepbench.testing.records import REF

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from stepbench.testing.lambda_api import LambdaApi

QUESTION = (
    "How much memory do a writer's records take, how many bytes are stored, and what does reading them back cost?"
)
SLICE_S, QUICK_SLICE_S = 600, 20
MOST_BYTES, MOST_GROWTH_MB = 8, 32
ROUNDS = 3
PAGE_BYTES = 1 << 20
_LIMIT_S = 600


def slice_case(name: str, store: str, asked: argparse.Namespace, *options: str) -> Case:
    """One writer at 3,000 events a second."""
    events = RATE_PER_S * (QUICK_SLICE_S if asked.quick else SLICE_S)
    command_line = [sys.executable, "-m", "benchmarks.recorded_slice", store, str(events), *options]
    found = []
    for _ in range(min(asked.rounds, ROUNDS)):
        done = subprocess.run(command_line, cwd=command.ROOT, check=True, capture_output=True, timeout=_LIMIT_S)
        found.append(Recorded(**json.loads(done.stdout)))
    growth = None if options else Goal(of="value", at_most=MOST_GROWTH_MB)
    size = Goal(of="value", at_most=MOST_BYTES) if store == "dynamodb" else None
    return Case(
        name=name,
        figures=(
            _figure("bytes a record in files", "B", [each.file_bytes for each in found], size),
            _figure("columns made before the first event", "MB", [each.columns_mb for each in found]),
            _figure("memory on top of that, at most", "MB", [each.growth_mb for each in found], growth),
            _figure("CPU of flushing a record, on the side", "µs", [each.flush_us for each in found]),
        ),
    )


def _figure(name: str, unit: str, values: list[float], goal: Goal | None = None) -> Figure:
    return Figure(name=name, unit=unit, ours=tuple(values), goal=goal)


def reading_case(count: int, asked: argparse.Namespace) -> Case:
    """Items of so many arrivals, until they are columns."""
    page = page_of(count)
    items = len(page["Items"]) * layout.T4_SHARDS
    with lambda_api() as server:
        serve(server, page)
        with closing(_client(server)) as client:
            resource = boto3.resource("dynamodb", **_place(server))
            side_by_side = TrialTable(resource.Table("results"), shards=lambda: ShardReader(client, "results"))
            one_by_one = TrialTable(resource.Table("results"))
            own, other = (partial(_reading_us, table, items) for table in (side_by_side, one_by_one))
            pairs = rounds.take_turns(own, other, asked.rounds)
            resource.meta.client.close()
    ours, peer = (tuple(each[side][0] for each in pairs) for side in (0, 1))
    figure = Figure(name="CPU of reading an item", unit="µs", ours=ours, peer=peer)
    return Case(name=f"results table, items of {count:,}", peer=f"boto3 {boto3.__version__}", figures=(figure,))


def _reading_us(table: TrialTable, items: int) -> tuple[float]:
    begun_s = time.process_time()
    found = sum(1 for _ in map(parse_item, table.t4_items(REF.tag)))
    if found != items:
        message = f"{found} of {items} items were read"
        raise RuntimeError(message)
    return ((time.process_time() - begun_s) / items * 1e6,)


def page_of(count: int) -> dict[str, Any]:
    """As DynamoDB answers a query: 1 MB of items."""
    return {"Items": list(_items(count))}


def _items(count: int) -> Iterator[dict[str, Any]]:
    entries = pack(Entry(0, 0, place % 10, 0, place, place // 3, 10**18, 10**18) for place in range(count))
    size = len(entries) + 230
    for number in range(PAGE_BYTES // size):
        yield {
            "pk": {"S": layout.t4_pk(REF.tag, 3)},
            "sk": {"S": layout.t4_sk(f"6f1c0f0e-7d3a-4a52-9f39-{number:012x}", 10**18 + number)},
            "expires_at": {"N": "1800000000"},
            "n": {"N": str(count)},
            "entries": {"B": base64.b64encode(entries).decode()},
            "sandbox": {"S": "0123456789ab"},
            "cold": {"BOOL": False},
            "init_ns": {"N": "250000000"},
            "batch": {"N": str(count)},
            "source": {"S": "receiver"},
            "t3_resolution_ns": {"N": "1000000000"},
            "ignored": {"N": "0"},
        }


def serve(server: LambdaApi, page: dict[str, Any]) -> None:
    """The same to everybody."""
    body = json.dumps(page).encode()
    answer = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
    server.answer = lambda _: answer


def _client(server: LambdaApi) -> Any:  # noqa: ANN401 -- boto3 clients have no common type
    return boto3.client("dynamodb", **_place(server), config=Config(max_pool_connections=32))


def _place(server: LambdaApi) -> dict[str, Any]:
    credentials = {"aws_access_key_id": "none", "aws_secret_access_key": "none"}
    return {"region_name": "us-east-1", "endpoint_url": f"http://{server.endpoint}", **credentials}


def measure(asked: argparse.Namespace) -> command.Found:
    """All cases."""
    with machine.pinned():
        cases = (
            slice_case("DynamoDB, a slice", "dynamodb", asked),
            slice_case("S3 with version ids, a slice", "s3", asked),
            slice_case("DynamoDB, bucket and table out all the while", "dynamodb", asked, "--outage"),
            slice_case("S3 with version ids, both out all the while", "s3", asked, "--outage"),
            *(reading_case(count, asked) for count in (1, 100)),
        )
    return command.Found(cases, _NOTES)


_NOTES = (
    "A slice is 10 minutes at 3,000 events a second: 1.8 M events, flushed every 10 s.",
    "AWS's version ids are 32 characters at random, 24 bytes each whatever is done to them.",
    "Memory is that of recorder, payloads and flushes; engine, connections and libraries are not in it.",
)


def main() -> None:
    """Measure, print, keep."""
    command.run("records", QUESTION, measure)


if __name__ == "__main__":
    main()
