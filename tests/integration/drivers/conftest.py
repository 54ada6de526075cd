"""What the drivers' tests share."""

from __future__ import annotations

import asyncio
import io
import json
import zipfile
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
import uvloop

from stepbench.records.formats.deliveries import parse_delivery

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping
    from contextlib import AbstractAsyncContextManager

    from tests.support.contracts.filter import Arrived

    from stepbench.services import Services

    Receiving = Callable[[str], AbstractAsyncContextManager[Arrived]]
    """By a trial's tag."""


def pytest_asyncio_loop_factories(item: pytest.Item) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Return the loop that writers use: asyncio's own leaves a cycle behind for each connection."""
    del item
    return {"uvloop": uvloop.new_event_loop}


STUB = """
import json, os, urllib.request
def handler(event, context):
    url = f"{os.environ['AWS_ENDPOINT_URL']}/{os.environ['BUCKET']}/delivered/{context.aws_request_id}"
    urllib.request.urlopen(urllib.request.Request(url, json.dumps(event).encode(), method="PUT"), timeout=10)
    return {}
"""


@pytest.fixture
def receiver_arn(services: Services) -> Iterator[str]:
    """Make a function that triggers can name; with no concurrency left to it, it runs within `receiving` only."""
    code = io.BytesIO()
    with zipfile.ZipFile(code, "w") as archive:
        archive.writestr("stub.py", STUB)
    client = services.aws("lambda")
    name = f"{services.settings.function_prefix}-ReceiveEvents"
    arn: str = client.create_function(
        FunctionName=name,
        Runtime="python3.13",
        Role="arn:aws:iam::000000000000:role/stub",
        Handler="stub.handler",
        Code={"ZipFile": code.getvalue()},
        Environment={"Variables": {"BUCKET": services.settings.results_bucket}},
        Timeout=15,
    )["FunctionArn"]
    client.put_function_concurrency(FunctionName=name, ReservedConcurrentExecutions=0)
    yield arn
    client.delete_function(FunctionName=name)


@pytest.fixture
def receiving(services: Services, receiver_arn: str) -> Receiving:
    """Return what lets the function of `receiver_arn` run; what it was handed lies in the results bucket."""

    def read(tag: str) -> list[tuple[int, int]]:
        bucket = services.settings.results_bucket
        keys = [each["Key"] for each in s3.list_objects_v2(Bucket=bucket, Prefix="delivered/").get("Contents", ())]
        events = [json.load(s3.get_object(Bucket=bucket, Key=key)["Body"]) for key in keys]
        deliveries = [parse_delivery(event, 1) for event in events]
        assert not any(delivery.malformed for delivery in deliveries)
        arrivals = [each for delivery in deliveries for each in delivery.arrivals if each.tag == tag]
        return [(each.entry.phase, each.entry.sequence) for each in arrivals]

    @asynccontextmanager
    async def let_it_run(tag: str) -> AsyncIterator[Arrived]:
        client.delete_function_concurrency(FunctionName=receiver_arn)
        yield lambda: asyncio.to_thread(read, tag)
        client.put_function_concurrency(FunctionName=receiver_arn, ReservedConcurrentExecutions=0)

    s3, client = services.aws("s3"), services.aws("lambda")
    return let_it_run
