"""Items of somebody's own, from the request to the receiver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from boto3.dynamodb.types import TypeDeserializer
from tests.integration.drivers.dynamodb.test_trigger import stream_records
from tests.support.contracts.life import running
from tests.support.contracts.rows import own_rows

from stepbench.contracts.identity import update_key
from stepbench.model.pending import perform
from stepbench.records.formats.deliveries import parse_delivery

if TYPE_CHECKING:
    from tests.integration.drivers.dynamodb.conftest import DynamoDbSubject

    from stepbench.services import Services

pytestmark = pytest.mark.emulator
ROWS: list[dict[str, Any]] = [
    {"order": 'é "quoted" \\ \u2028', "amount": 19.5, "lines": [{"n": 12345678901234567890}], "none": None, "ok": True},
    {"order": "o-2", "value": {"nested": {"deep": [[]]}}},
]


@pytest.mark.parametrize(
    "record", [{}, {"identity": "_event"}, {"operation": "update", "distinct_keys": 2, "identity": "_event"}]
)
async def test_items_are_stored_as_given_and_their_events_are_found(
    subject: DynamoDbSubject, services: Services, record: dict[str, Any]
) -> None:
    """The handler gets the attributes that it knows; the receiver finds its events, wherever they stand."""
    own = own_rows(subject.target, ROWS, **record)
    async with running(own.given_to(subject.driver(own.spec))) as driver:
        writes = [own.payloads.write(number) for number in range(4)]
        for write in writes:
            assert (await perform(driver, write)).error == ""
        stored = services.aws("dynamodb").get_item(TableName=subject.name(own.spec), Key={"pk": {"S": writes[3].key}})
        records = stream_records(subject, own.spec, services)
    item = {name: TypeDeserializer().deserialize(value) for name, value in stored["Item"].items()}
    assert {"pk", *ROWS[1], *({"_event"} if "identity" in record else ())} == item.keys()
    assert item["value"] == {"nested": {"deep": [[]]}}
    for each in records:
        each["eventSource"], each["dynamodb"]["ApproximateCreationDateTime"] = "aws:dynamodb", 1_700_000_000
    arrived = parse_delivery({"Records": records}, 1)
    assert [arrival.entry.sequence for arrival in arrived.arrivals] == [0, 1, 2, 3]


async def test_updates_find_rows_preloaded(subject: DynamoDbSubject, services: Services) -> None:
    """A handler that reads the old image, or the item itself, meets what it knows."""
    own = own_rows(subject.target, ROWS, operation="update", distinct_keys=3, identity="_event")
    async with running(own.given_to(subject.driver(own.spec))):
        key = {"pk": {"S": update_key(own.spec.tag, 1, 59)}}
        stored = services.aws("dynamodb").get_item(TableName=subject.name(own.spec), Key=key)["Item"]
    assert stored["order"] == {"S": "o-2"}
