from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest

from stepbench.contracts.identity import EventId, put_key
from stepbench.drivers.protocol import Outcome
from stepbench.records.t4 import parse_item
from stepbench.stages.check_clock import Checker, check_clock, open_checker
from stepbench.testing.records import REF, dynamodb_record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.stages.services import Services

pytestmark = pytest.mark.emulator

EVENT = EventId(REF.tag, 1, 2, 3, 4, 5)


@pytest.fixture
def checker(services: Services, monkeypatch: pytest.MonkeyPatch) -> Iterator[Checker]:
    """A sandbox as the handler opens it, from its environment."""
    for name, value in services.settings.model_dump().items():
        if value != "":
            monkeypatch.setenv(name.upper(), str(value))
    opened = open_checker(os.environ, time.time_ns())
    yield opened
    opened.close()


def _make_table(services: Services) -> str:
    name = f"{services.settings.target_table_prefix}{REF.tag}"
    services.aws("dynamodb").create_table(
        TableName=name,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
    )
    return name


def test_one_sandbox_writes_and_receives(services: Services, checker: Checker) -> None:
    """The item is in the store between its t1 and t2, and the delivery is recorded under the id that wrote it."""
    table, key = _make_table(services), put_key(EVENT, 59)
    event = {"table": table, "key": key, "value": f"{EVENT.text()} and more"}
    began_ns = time.time_ns()
    told = check_clock(event, began_ns, "request-0", checker)
    assert (told["outcome"], told["error"]) == (Outcome.OK, "")
    assert began_ns < told["t1_ns"] < told["t2_ns"] < time.time_ns()
    item = services.aws("dynamodb").get_item(TableName=table, Key={"pk": {"S": key}})["Item"]
    assert item["value"]["S"] == f"{EVENT.text()} and more"
    t4_ns = time.time_ns()
    check_clock({"Records": [dynamodb_record(EVENT)]}, t4_ns, "request-1", checker)
    (received,) = map(parse_item, services.table.t4_items(REF.tag))
    assert (received.sandbox, received.cold) == (told["sandbox"], False)
    assert received.entries["t4_ns"].tolist() == [t4_ns]


def test_a_table_that_is_gone_is_a_refusal(checker: Checker) -> None:
    """DynamoDB's own word for it reaches the writer."""
    told = check_clock({"table": "nowhere", "key": "k", "value": "v"}, time.time_ns(), "request-0", checker)
    assert (told["outcome"], told["error"]) == (Outcome.FAILED, "ResourceNotFoundException")
