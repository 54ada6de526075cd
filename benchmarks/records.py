"""
What records cost: a writer's memory over a slice of ten minutes, bytes in its files, and reading a results table back.

    python -m benchmarks.records [--rounds N] [--quick]

Slices are recorded in processes of their own (`benchmarks.recorded_slice`), without a load, so that nothing else is in
their memory. The results table is read from a server in this process that has one page for everybody.
"""

from __future__ import annotations

import base64
import json
import sys
import time
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any

import boto3
from benchmarks import command, rounds
from benchmarks.recorded_slice import RATE_PER_S, Recorded
from benchmarks.result import Case, Goal, Measure, figures_of
from botocore.config import Config
from tests.samples.lambda_api import lambda_api
from tests.samples.records import REF

from stepbench.records.formats.t4 import Entry, pack
from stepbench.records.formats.t4_items import parse_item
from stepbench.records.storage import layout
from stepbench.records.storage.shards import ShardReader
from stepbench.records.storage.trial_table import TrialTable

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from tests.samples.lambda_api import LambdaApi

QUESTION = (
    "How much memory do a writer's records take, how many bytes are stored, and what does reading them back cost?"
)
SLICE_S, QUICK_SLICE_S = 600, 20
MOST_BYTES, MOST_GROWTH_MB = 8, 32
ROUNDS = 3
PAGE_BYTES = 1 << 20
_LIMIT_S = 600


def slice_case(name: str, store: str, asked: argparse.Namespace, *options: str) -> Case:
    """Record slices of one writer at 3,000 events a second."""
    events = RATE_PER_S * (QUICK_SLICE_S if asked.quick else SLICE_S)
    line = [sys.executable, "-m", "benchmarks.recorded_slice", store, events, *options]
    found = [Recorded(**json.loads(command.run_program(line, _LIMIT_S))) for _ in range(min(asked.rounds, ROUNDS))]
    measures = (
        Measure("bytes a record in files", "B", Goal(of="value", at_most=MOST_BYTES) if store == "dynamodb" else None),
        Measure("columns made before the first event", "MB"),
        Measure("memory on top of that, at most", "MB", None if options else Goal(of="value", at_most=MOST_GROWTH_MB)),
        Measure("CPU of flushing a record, on the side", "µs"),
    )
    return Case(name=name, figures=figures_of(measures, [(each, ()) for each in found]))


def reading_case(count: int, asked: argparse.Namespace) -> Case:
    """Compare two ways to read items of so many arrivals, until they are columns."""
    page = list(_page(count))
    items = len(page) * layout.T4_SHARDS
    body = json.dumps({"Items": page}).encode()
    answer = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
    with lambda_api() as server:
        server.answer = lambda _: answer
        place = _place(server)
        with closing(boto3.client("dynamodb", **place, config=Config(max_pool_connections=32))) as client:
            resource = boto3.resource("dynamodb", **place)
            side_by_side = TrialTable(resource.Table("results"), shards=lambda: ShardReader(client, "results"))
            one_by_one = TrialTable(resource.Table("results"))
            own, other = (partial(_reading_us, table, items) for table in (side_by_side, one_by_one))
            figures = rounds.compare([Measure("CPU of reading an item", "µs")], own, other, asked.rounds)
            resource.meta.client.close()
    return Case(name=f"results table, items of {count:,}", peer=f"boto3 {boto3.__version__}", figures=figures)


def _reading_us(table: TrialTable, items: int) -> tuple[float]:
    begun_s = time.process_time()
    found = sum(1 for _ in map(parse_item, table.t4_items(REF.tag)))
    if found != items:
        message = f"{found} of {items} items were read"
        raise RuntimeError(message)
    return ((time.process_time() - begun_s) / items * 1e6,)


def _page(count: int) -> Iterator[dict[str, Any]]:
    """Yield the items that DynamoDB answers a query: 1 MB of them."""
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


def _place(server: LambdaApi) -> dict[str, Any]:
    credentials = {"aws_access_key_id": "none", "aws_secret_access_key": "none"}
    return {"region_name": "us-east-1", "endpoint_url": f"http://{server.endpoint}", **credentials}


def measure(asked: argparse.Namespace) -> command.Found:
    """Measure all cases."""
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


if __name__ == "__main__":
    command.run("records", QUESTION, measure)
