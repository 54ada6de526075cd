"""The results table's client: what boto3 does not promise."""

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import boto3
import pytest
from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders
from botocore.config import Config

from stepbench.records.storage.trial_table import TrialTable, dynamodb_table

QUERIES = 300


class _Body:
    def stream(self, **_: object) -> Iterator[bytes]:
        yield b'{"Items": [], "Count": 0}'


@pytest.fixture
def _eager_threads() -> Iterator[None]:
    """Let threads take turns every microsecond."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("_eager_threads")
def test_threads_build_their_conditions_apart() -> None:
    """Two threads query at once, and each query has both of its keys."""
    session = boto3.Session(aws_access_key_id="test", aws_secret_access_key="test", region_name="us-east-1")  # noqa: S106
    table = dynamodb_table(session, "results", Config())
    conditions: list[str] = []

    def answer(request: Any, **_: object) -> Any:  # noqa: ANN401 -- botocore's
        conditions.append(request.body.decode())
        return AWSResponse(request.url, 200, HTTPHeaders(), _Body())

    table.meta.client.meta.events.register("before-send.dynamodb", answer)
    records = TrialTable(table)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda _: records.beats("tag"), range(QUERIES)))
    assert len(conditions) == QUERIES
    for body in conditions:
        assert '"(#n0 = :v0 AND begins_with(#n1, :v1))"' in body
