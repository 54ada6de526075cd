"""Shards of the results table, served page by page on loopback as DynamoDB serves them."""

from __future__ import annotations

import base64
import json
import threading
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any, cast

import boto3
import pytest
from botocore.config import Config
from tests.samples.lambda_api import Invocation, LambdaApi, lambda_api
from tests.samples.records import REF

from stepbench.errors import RecordsUnavailableError
from stepbench.records.storage import layout
from stepbench.records.storage.shards import THREADS, ShardReader
from stepbench.records.storage.trial_table import TrialTable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mypy_boto3_dynamodb.service_resource import Table

PAGES = 3
LIMIT_S = 60


class Store:
    """A table whose every partition has `PAGES` pages of one item; pages are counted, and may be held back."""

    def __init__(self, server: LambdaApi) -> None:
        self.asked: list[tuple[str, int]] = []
        self.queries: list[dict[str, Any]] = []
        self.open = threading.Event()
        self.open.set()
        self.refuses = False
        self.says = b""
        self._lock = threading.Lock()
        server.answer = self.answer
        self.client = boto3.client(
            "dynamodb",
            "us-east-1",
            endpoint_url=f"http://{server.endpoint}",
            aws_access_key_id="a",
            aws_secret_access_key="b",  # noqa: S106 -- none
            config=Config(retries={"total_max_attempts": 1}, max_pool_connections=THREADS),
        )
        self.table = TrialTable(cast("Table", None), shards=lambda: ShardReader(self.client, "results"))

    def answer(self, invocation: Invocation) -> bytes:
        """Answer with one page."""
        query = json.loads(invocation.body)
        partition = query["ExpressionAttributeValues"][":pk"]["S"]
        page = int(query.get("ExclusiveStartKey", {"sk": {"S": "-1"}})["sk"]["S"]) + 1
        with self._lock:
            self.asked.append((partition, page))
            self.queries.append(query)
        self.open.wait(LIMIT_S)
        if self.refuses:
            return _response(400, {"__type": "x#ResourceNotFoundException", "message": "no such table"})
        if self.says:
            return _response(200, self.says)
        last = {"pk": {"S": partition}, "sk": {"S": str(page)}}
        more = {"LastEvaluatedKey": last} if page + 1 < PAGES else {}
        return _response(200, {"Items": [{**last, "n": {"N": "2"}, **EVERY_KIND}], "Count": 1, **more})


EVERY_KIND = {
    "entries": {"B": base64.b64encode(b"\0\1").decode()},
    "cold": {"BOOL": True},
    "tokens": {"L": [{"S": "é"}, {"S": ""}]},
}


def _response(status: int, body: dict[str, Any] | bytes) -> bytes:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return f"HTTP/1.1 {status} X\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data


@pytest.fixture
def store() -> Iterator[Store]:
    """Serve a table whose client is closed at the end, so that no socket is left."""
    with lambda_api() as server:
        made = Store(server)
        with closing(made.client):
            yield made
        made.open.set()


def readers() -> list[threading.Thread]:
    """Return the threads of pools."""
    return [thread for thread in threading.enumerate() if thread.name.startswith("ThreadPoolExecutor")]


def test_a_client_may_be_read_from_again(store: Store) -> None:
    """By another reader, as a table makes one for each reading."""
    first, second = (list(store.table.t4_items(REF.tag)) for _ in range(2))
    assert len(second) == len(first) == layout.T4_SHARDS * PAGES


def test_every_page_of_every_shard_is_read_once(store: Store) -> None:
    """A page left out would be lost events; one read twice, duplicates."""
    items = list(store.table.t4_items(REF.tag))
    expected = [(layout.t4_pk(REF.tag, shard), page) for shard in range(layout.T4_SHARDS) for page in range(PAGES)]
    assert sorted((item["pk"], int(item["sk"])) for item in items) == sorted(store.asked) == expected
    assert items[0] == {
        **{name: items[0][name] for name in ("pk", "sk")},
        "n": 2,
        "entries": b"\0\1",
        "cold": True,
        "tokens": ["é", ""],
    }


def test_a_read_is_consistent_and_of_what_is_asked_for(store: Store) -> None:
    """An arrival that was acknowledged a moment ago must be found; a count need not fetch the entries."""
    assert store.table.t4_count(REF.tag) == 2 * PAGES * layout.T4_SHARDS
    assert {(query["ConsistentRead"], query["ProjectionExpression"]) for query in store.queries} == {(True, "n")}


def test_shards_are_read_side_by_side(store: Store) -> None:
    """One after the other, each would wait for the network in its turn."""
    store.open.clear()
    items = store.table.t4_items(REF.tag)
    reading = threading.Thread(target=lambda: next(items))
    reading.start()
    deadline_s = time.monotonic() + LIMIT_S
    while len(store.asked) < THREADS and time.monotonic() < deadline_s:
        time.sleep(0.01)
    assert len(store.asked) == THREADS
    store.open.set()
    reading.join(LIMIT_S)
    assert len(list(items)) == PAGES * layout.T4_SHARDS - 1


def test_no_more_is_read_ahead_than_a_page_of_each_shard(store: Store) -> None:
    """A trial may have more items than the function has memory."""
    items = store.table.t4_items(REF.tag)
    next(items)
    for thread in readers():
        thread.join(0.1)
    assert len(store.asked) <= layout.T4_SHARDS + 1
    cast("Any", items).close()


def test_a_reader_that_stops_early_leaves_no_thread(store: Store) -> None:
    """A sandbox lives for hours."""
    before = set(readers())
    items = store.table.t4_items(REF.tag)
    next(items)
    cast("Any", items).close()
    assert set(readers()) <= before


def test_a_table_that_refuses_is_named(store: Store) -> None:
    """The reader of a failed execution sees only this line."""
    store.refuses = True
    before = set(readers())
    with pytest.raises(RecordsUnavailableError, match=r"results table results: .*no such table"):
        list(store.table.t4_items(REF.tag))
    assert set(readers()) <= before


@pytest.mark.parametrize(
    "says", [b'{"Items": [{"n": {"N"', b"{}", b"[]", b'{"Items": ["n"]}', b'{"Items": [{"n": {"M": {}}}]}']
)
def test_an_answer_that_is_no_page_is_the_table_s_failure(store: Store, says: bytes) -> None:
    """The state machine repeats what it knows by name; a JSONDecodeError would end the trial."""
    store.says = says
    with pytest.raises(RecordsUnavailableError, match="results table results: its answer is no page"):
        list(store.table.t4_items(REF.tag))
