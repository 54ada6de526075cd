"""Columns of somebody's own, from the request to the trigger's payload."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from psycopg import sql
from tests.integration.drivers.postgresql.conftest import PostgresqlSubject, postgresql_driver
from tests.integration.drivers.sql.superuser import superuser
from tests.support.contracts.life import running
from tests.support.contracts.rows import own_rows

from stepbench.contracts.identity import EVENT_ID_CHARS, parse_event_id
from stepbench.errors import PlanError
from stepbench.model.pending import perform
from stepbench.records.formats.deliveries import parse_delivery

if TYPE_CHECKING:
    from tests.samples.lambda_api import LambdaApi

pytestmark = pytest.mark.stores
ROWS: list[dict[str, Any]] = [
    {"order": "o-1", "amount": 19.5, "lines": [{"sku": "é", "n": 1}], "at": "2025-01-02T03:04:05Z", 'Odd " name': True},
    {"order": "o-2", "amount": 7},
]
TYPES = {"at": "timestamptz"}


@pytest.mark.parametrize(
    "record",
    [
        {},
        {"identity": "event"},
        {"operation": "update", "distinct_keys": 3},
        {"operation": "delete"},
        {"matching_share": 0.5},
    ],
)
async def test_rows_reach_the_payload_with_their_event(
    subject: PostgresqlSubject, receiver_api: LambdaApi, record: dict[str, Any]
) -> None:
    """A handler of its own gets the row in one payload, as the trigger of an application would send it."""
    own = own_rows(subject.target, ROWS, TYPES, **record)
    async with running(own.given_to(postgresql_driver(own.spec, subject.endpoint))) as driver:
        assert receiver_api.invocations == []  # preloading is no event
        writes = [own.payloads.write(number) for number in range(4)]
        results = [await perform(driver, write) for write in writes]
    assert [(each.outcome.name, each.error) for each in results] == [("OK", "")] * 4
    posted = [json.loads(each.body) for each in receiver_api.invocations]
    arrived = [parse_delivery(each, 1).arrivals[0].entry.sequence for each in posted]
    assert arrived == ([1, 3] if "matching_share" in record else [0, 1, 2, 3])
    operation = {"update": "UPDATE", "delete": "DELETE"}.get(record.get("operation", ""), "INSERT")
    for payload, number in zip(posted, arrived, strict=True):
        row = payload["row"]
        assert (payload["source"], payload["operation"], len(payload["event"])) == (
            "stepbench:postgresql",
            operation,
            40,
        )
        assert row.keys() == {"key", "order", "amount", "lines", "at", 'Odd " name'}
        assert row["key"] == writes[number].key
        if operation != "DELETE":
            assert row["order"] == f"o-{number % 2 + 1}"
    first = next((payload["row"] for payload in posted if payload["row"]["order"] == "o-1"), None)
    if first:
        assert (first["amount"], first["lines"], first['Odd " name']) == (19.5, [{"sku": "é", "n": 1}], True)
        assert first["at"].startswith("2025-01-02T")


async def test_the_table_has_the_rows_columns(subject: PostgresqlSubject) -> None:
    """And of puts nothing beside them but the key."""
    own = own_rows(subject.target, ROWS, TYPES)
    async with running(own.given_to(postgresql_driver(own.spec, subject.endpoint))) as driver:
        write = own.payloads.write(1)
        await perform(driver, write)
        async with superuser(subject.endpoint) as connection:
            table = sql.SQL("SELECT * FROM {}.records").format(sql.Identifier(f"stepbench_{own.spec.tag}"))
            cursor = await connection.execute(table)
            row = await cursor.fetchone()
            names = [column.name for column in cursor.description or ()]
    assert names == ["key", *own.values.facts.columns]
    assert row == (write.key, "o-2", 7, None, None, None)
    assert parse_event_id(write.key[:EVENT_ID_CHARS])


async def test_a_text_that_is_none_of_its_type_is_refused_and_not_shown(subject: PostgresqlSubject) -> None:
    """Every insert would fail; PostgreSQL's own message has the text in it."""
    own = own_rows(subject.target, [{"at": "private"}], TYPES)
    driver = own.given_to(postgresql_driver(own.spec, subject.endpoint))
    with pytest.raises(PlanError, match="is timestamptz, and a row has a text that is none") as refused:
        await driver.prepare()
    assert "private" not in str(refused.value)
    assert await driver.tear_down()
