"""Receivers on the real table and bucket: `ReceiveEvents`, and `CheckClock` that writes as well."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest
from tests.samples.records import REF, dynamodb_record, postgresql_delivery, s3_record, t4_item

from stepbench.contracts.identity import EventId, put_key, update_key
from stepbench.errors import RecordsUnavailableError
from stepbench.model.request import Outcome
from stepbench.records.formats.t4 import decode_fallback
from stepbench.records.formats.t4_items import parse_item
from stepbench.records.formats.t4_lines import parse_t4_line
from stepbench.records.storage import layout
from stepbench.records.storage.layout import ClockSample
from stepbench.records.storage.receiver_paths import ReceiverTable, open_table
from stepbench.services import Services
from stepbench.stages.check_clock import Checker, check_clock, open_checker
from stepbench.stages.receive_events import TABLE_RETRY, Receiver, open_receiver, receive_events

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.emulator

EVENT = EventId(REF.tag, 1, 2, 3, 4, 5)


@pytest.fixture
def receiver(services: Services, monkeypatch: pytest.MonkeyPatch) -> Receiver:
    """Return a sandbox as the handler opens it, from its environment."""
    _set_environment(services, monkeypatch)
    return open_receiver(os.environ, time.time_ns())


@pytest.fixture
def short(services: Services, monkeypatch: pytest.MonkeyPatch) -> ReceiverTable:
    """Return the table as a receiver reaches it."""
    _set_environment(services, monkeypatch)
    return open_table(os.environ, TABLE_RETRY)


def _set_environment(services: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in services.settings.model_dump().items():
        if value != "":
            monkeypatch.setenv(name.upper(), str(value))


def test_every_store_s_delivery_ends_in_the_table(services: Services, receiver: Receiver) -> None:
    """The low-level client writes it, and the resource reads it back."""
    deliveries = [
        {"Records": [s3_record(put_key(EVENT, 59))]},
        {"Records": [s3_record(update_key(REF.tag, 9, 59), version="abc")]},
        {"Records": [dynamodb_record(EVENT._replace(sequence=number)) for number in range(3)]},
        postgresql_delivery(EVENT),
    ]
    for number, delivery in enumerate(deliveries):
        assert receive_events(delivery, 1_000 + number, f"request-{number}", receiver) == {"batchItemFailures": []}
    items = {item.request_id: item for item in map(parse_item, services.table.t4_items(REF.tag))}
    assert {name: item.entries.size for name, item in items.items()} == {
        "request-0": 1,
        "request-1": 1,
        "request-2": 3,
        "request-3": 1,
    }
    assert items["request-1"].tokens == ("abc",)
    assert items["request-0"].cold
    assert not items["request-3"].cold
    assert services.table.t4_count(REF.tag) == 6


def test_both_ways_to_the_table_store_the_same(services: Services, short: ReceiverTable) -> None:
    """Receivers take the short way, watchers the other one; analysis must not see which."""
    item = t4_item([], tokens=["a", "é\n"], cold=True, init_ns=2**60)
    for at_ns, table in ((1, short), (2, services.table)):
        table.put_t4(REF.tag, "same-request", at_ns, item)
        table.put_malformed("s3", at_ns, "same-request", 3, "x" * 5_000)
        table.add_clock(REF.tag, ClockSample("receiver", "sandbox", at_ns, -5, 2))
    for one, other in (list(services.table.t4_items(REF.tag)), services.table.malformed("s3", 0, 9)):
        assert {**one, "sk": "", "expires_at": 0} == {**other, "sk": "", "expires_at": 0}
        assert abs(one["expires_at"] - other["expires_at"]) <= 1
    first, second = services.table.clocks(REF.tag)
    assert first == second._replace(at_ns=1)


def test_a_receiver_reads_its_environment_as_all_others_do(services: Services, receiver: Receiver) -> None:
    """It has no `Settings`, which would take half a second of every cold start: names and defaults must not differ."""
    receive_events(postgresql_delivery(EVENT), 1_000, "request-1", receiver)
    (item,) = services.table.t4_items(REF.tag)
    assert abs(int(item["expires_at"]) - time.time() - services.settings.records_ttl_days * 86_400) < 60


def test_a_table_that_is_gone_is_replaced_by_the_bucket(services: Services, receiver: Receiver) -> None:
    """The real error of the real client leads there."""
    services.table._table.delete()
    receive_events({"Records": [s3_record(put_key(EVENT, 59)), "junk"]}, 1_000, "request-1", receiver)
    (key,) = services.runs.keys(layout.t4_fallback_prefix(REF.tag))
    assert parse_item(decode_fallback(key, services.runs.get_bytes(key))).entries["sequence"].tolist() == [5]
    assert list(services.runs.keys(layout.malformed_fallback_prefix("s3")))


def test_without_table_and_bucket_the_invocation_fails(services: Services, receiver: Receiver) -> None:
    """Lambda's on-failure queue then holds the event."""
    services.table._table.delete()
    services.aws("s3").delete_bucket(Bucket=services.settings.results_bucket)
    with pytest.raises(RecordsUnavailableError, match="t4-fallback"):
        receive_events(postgresql_delivery(EVENT), 1_000, "request-1", receiver)


def test_a_receiver_reads_a_flag_as_the_table_does(services: Services, short: ReceiverTable) -> None:
    """Receivers take the short way to a trial's setting; a table that is gone is an answer of its own."""
    assert short.flag(REF.tag, layout.LOG_T4) is None
    services.table.set_flag(REF.tag, layout.LOG_T4, "sample")
    assert short.flag(REF.tag, layout.LOG_T4) == services.table.flag(REF.tag, layout.LOG_T4) == "sample"
    services.table._table.delete()
    with pytest.raises(RecordsUnavailableError, match=services.settings.results_table):
        short.flag(REF.tag, layout.LOG_T4)


def test_a_sandbox_prints_where_the_trial_asks_for_it(
    services: Services, receiver: Receiver, capsys: pytest.CaptureFixture[str]
) -> None:
    """The handler opens it so: the flag in the table, the line on standard output."""
    services.table.set_flag(REF.tag, layout.LOG_T4, "all")
    for number in range(2):
        receive_events(postgresql_delivery(EVENT), 1_000 + number, f"request-{number}", receiver)
    lines = [parse_t4_line(text, REF.tag) for text in capsys.readouterr().out.splitlines()]
    assert [line and (line.request_id, line.t4_ns) for line in lines] == [("request-0", 1_000), ("request-1", 1_001)]


@pytest.fixture
def checker(services: Services, monkeypatch: pytest.MonkeyPatch) -> Iterator[Checker]:
    """Yield a sandbox as the handler opens it, from its environment."""
    _set_environment(services, monkeypatch)
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


def test_a_table_that_is_gone_is_a_refusal_to_the_checker(checker: Checker) -> None:
    """DynamoDB's own word for it reaches the writer."""
    told = check_clock({"table": "nowhere", "key": "k", "value": "v"}, time.time_ns(), "request-0", checker)
    assert (told["outcome"], told["error"]) == (Outcome.FAILED, "ResourceNotFoundException")
