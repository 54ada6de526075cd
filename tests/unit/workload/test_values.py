"""Rows as stores write them: sizes by hand, choices that every attempt repeats, refusals without content."""

from __future__ import annotations

import base64
import json
from collections import Counter
from typing import Any

import pytest

from stepbench.contracts.identity import EventId, parse_event_id, parse_update_key
from stepbench.contracts.plan import TrialPlan
from stepbench.contracts.workload import Kind
from stepbench.drivers.dynamodb.items import RowRequests
from stepbench.workload.payloads import ValuePayloads
from stepbench.workload.rows import RowsError
from stepbench.workload.values import PreparedValues, prepare_values

FIRST = EventId("aaaaaaaaaa-0001", 1, 0, 3, 0, 0)
KEY = f"values/{'0' * 64}.json"
ORDERS: list[dict[str, Any]] = [
    {"order": "o-1", "amount": 19.5, "paid": True, "lines": [{"sku": "é", "n": 2}], "note": None},
    {"order": "o-2", "amount": 7, "paid": False, "lines": [], "note": 'quote " and \\'},
]


def trial(store: str = "dynamodb", values: dict[str, Any] | None = None, **record: Any) -> TrialPlan:  # noqa: ANN401 -- fields
    """Return a trial's plan."""
    return TrialPlan.model_validate(
        {
            "target": {"store": store},
            "record": {"values": {"key": KEY, **(values or {})}, **record},
            "phases": [{"name": "only", "load": [{"rate_per_s": 10, "count": 100}]}],
        }
    )


def prepared(rows: list[dict[str, Any]], plan: TrialPlan) -> PreparedValues:
    """Return rows as the plan's store takes them."""
    return prepare_values(plan, json.dumps(rows).encode(), "json")


def payloads(rows: list[dict[str, Any]], plan: TrialPlan, first: EventId = FIRST, writers: int = 1) -> ValuePayloads:
    """Return the writes of a slice of 200 events."""
    return ValuePayloads(plan.record, first, 200, 7, prepared(rows, plan), writers)


def item(rows: list[dict[str, Any]], plan: TrialPlan) -> dict[str, Any]:
    """Return the item that DynamoDB is asked to put for the first event."""
    body = RowRequests("t", plan.record.identity_attribute).put_body(payloads(rows, plan).write(0))
    document: dict[str, Any] = json.loads(body)["Item"]
    return document


def test_json_types_are_dynamodb_s_and_the_key_alone_names_a_put() -> None:
    """The handler sees the items that it knows, and nothing beside them but the table's key."""
    found = item(ORDERS, trial())
    assert parse_event_id(found.pop("pk")["S"]) == FIRST
    assert found == {
        "order": {"S": "o-1"},
        "amount": {"N": "19.5"},
        "paid": {"BOOL": True},
        "lines": {"L": [{"M": {"sku": {"S": "é"}, "n": {"N": "2"}}}]},
        "note": {"NULL": True},
    }


def test_an_update_s_item_names_its_event_in_one_attribute() -> None:
    """Its key is that of many events. The name is the user's choice where `value` is taken."""
    records: list[tuple[dict[str, Any], str]] = [({}, "value"), ({"identity": "_event"}, "_event")]
    for record, name in records:
        plan = trial(values={}, operation="update", distinct_keys=5, **record)
        found = item(ORDERS, plan)
        assert parse_update_key(found["pk"]["S"])
        assert parse_event_id(found[name]["S"]) == FIRST
        assert found["order"] == {"S": "o-1"}


def test_sizes_are_counted_as_dynamodb_bills_them() -> None:
    """By hand: names 1 + 1; a text of 3 bytes; 12 is two digits, so 1 + 1 + 1. Key 2 + 59, of the 4-KiB row 5 KiB."""
    facts = prepared([{"a": "abc", "b": 12}, {"a": "x" * 4_096}], trial()).facts
    assert (facts.rows, facts.mean_bytes, facts.largest_bytes, facts.mean_kib) == (2, (8 + 4_097) / 2, 4_097, 3)
    with_identity = prepared([{"a": "abc"}], trial(operation="update", distinct_keys=1, identity="id")).facts
    assert with_identity.mean_bytes == 4 + 2 + 40


def test_the_mean_size_is_by_weight_and_weights_are_not_written() -> None:
    """The bill is of what is written; a weight is no attribute."""
    rows = [{"a": "x" * 99, "w": 3}, {"a": "x" * 499, "w": 1}]
    plan = trial(values={"choose": "weighted", "weight": "w"})
    assert prepared(rows, plan).facts.mean_bytes == (3 * 100 + 500) / 4
    assert item(rows, plan).keys() == {"pk", "a"}


@pytest.mark.parametrize("choose", ["in_order", "random", "weighted"])
def test_every_attempt_at_an_event_writes_the_same_row(choose: str) -> None:
    """A retry that wrote another row would measure another load."""
    rows: list[dict[str, Any]] = [{"body": str(number), "w": number + 1} for number in range(10)]
    named = {"weight": "w"} if choose == "weighted" else {}
    if not named:
        rows = [{"body": row["body"]} for row in rows]
    plan = trial("s3", {"choose": choose, **named})
    once, again = (payloads(rows, plan, FIRST._replace(attempt=attempt)) for attempt in (0, 1))
    assert [once.write(n).value for n in range(200)] == [again.write(n).value for n in range(200)]
    others = payloads(rows, plan, FIRST._replace(writer=1), writers=3)
    assert [once.write(n).value for n in range(200)] != [others.write(n).value for n in range(200)]


def test_in_order_the_writers_share_the_rows_between_them() -> None:
    """Writer 1 of 3 writes rows 1, 4, 7, 0, 3 ..., so that together they go through the file."""
    plan = trial("s3")
    made = payloads([{"body": str(number)} for number in range(10)], plan, FIRST._replace(writer=1), writers=3)
    assert [int(made.write(n).value) for n in range(5)] == [1, 4, 7, 0, 3]


def test_weights_are_shares() -> None:
    """200 draws of a weight of 3 to 1: 150, 4 sigma (24); one of weight 0 never."""
    rows: list[dict[str, Any]] = [{"body": name, "w": weight} for name, weight in (("a", 3), ("b", 1), ("c", 0))]
    made = payloads(rows, trial("s3", {"choose": "weighted", "weight": "w"}))
    counts = Counter(made.write(n).value for n in range(200))
    assert counts.keys() == {b"a", b"b"}
    assert abs(counts[b"a"] - 150) < 24


def test_s3_bodies_are_bytes_alone_and_keys_end_with_their_suffix() -> None:
    """A handler that makes thumbnails reads the image and goes by `.jpg`."""
    image = bytes(range(256)) * 20_000
    rows: list[dict[str, Any]] = [
        {"base64": base64.b64encode(image).decode(), "suffix": ".jpg"},
        {"body": {"a": 1}, "suffix": ".json"},
    ]
    first, second = (payloads(rows, trial("s3")).write(n) for n in range(2))
    assert (first.value, first.key[-4:], len(first.key)) == (image, ".jpg", 59 + 4)
    assert (second.value, second.key[-5:]) == (b'{"a": 1}', ".json")
    assert parse_event_id(first.key) == FIRST


def test_etcd_values_are_bodies_without_a_suffix() -> None:
    """The watcher finds the event in the key."""
    write = payloads([{"body": "é"}], trial("etcd")).write(0)
    assert (write.value, parse_event_id(write.key)) == ("é".encode(), FIRST)
    with pytest.raises(RowsError, match="is nothing that a body has"):
        prepared([{"body": "", "suffix": ".x"}], trial("etcd"))


def test_a_deletion_s_key_has_the_suffix_of_all_rows() -> None:
    """Preloaded and deleted keys are the same ones."""
    plan = trial("s3", operation="delete")
    rows = [{"body": "a", "suffix": ".x"}, {"body": "b", "suffix": ".x"}]
    values = prepared(rows, plan)
    write = ValuePayloads(plan.record, FIRST, 3, 7, values, 1).write(2)
    assert write.kind is Kind.DELETE
    assert write.key == values.request(write.key.removesuffix(".x"), "", 1).key
    with pytest.raises(RowsError, match="have different suffixes"):
        prepared([{"body": "a", "suffix": ".x"}, {"body": "b"}], plan)


def test_columns_have_the_types_of_their_values_and_null_where_a_row_has_none() -> None:
    """PostgreSQL's; whole numbers and others together are numeric."""
    values = prepared([*ORDERS, {"order": "o-3", "amount": 2**70}], trial("postgresql"))
    assert values.facts.columns == {
        "order": "text", "amount": "numeric", "paid": "boolean", "lines": "jsonb", "note": "text",
    }  # fmt: skip
    cells = [values.request("k", "", number).row for number in range(3)]
    assert cells[0] == (b"o-1", b"19.5", b"true", '[{"sku": "é", "n": 2}]'.encode(), None)
    assert cells[2] == (b"o-3", str(2**70).encode(), None, None, None)


def test_a_type_that_is_given_is_the_column_s() -> None:
    """A date is a text in JSON."""
    plan = trial("postgresql", {"types": {"at": "timestamptz", "n": "text"}})
    values = prepared([{"at": "2025-01-01", "n": 1}, {"at": "2025-01-02", "n": "x"}], plan)
    assert values.facts.columns == {"at": "timestamptz", "n": "text"}
    assert values.request("k", "", 0).row == (b"2025-01-01", b"1")


PRIVATE = "private"
BAD_ROWS: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [
    ("dynamodb", {}, {"a": PRIVATE * 60_000}, "row 1: has 420,001 bytes, and an item, with its key, takes 409,539"),
    ("dynamodb", {}, {"pk": PRIVATE}, 'row 1, column "pk": is the name of the key'),
    ("dynamodb", {"identity": "a"}, {"a": PRIVATE}, 'row 1, column "a": is the name of the event\'s identity'),
    ("dynamodb", {}, {"": PRIVATE}, "row 1: has a name that is empty"),
    ("dynamodb", {}, {"a": 1e200, "b": PRIVATE}, 'row 1, column "a": is a number out of DynamoDB\'s range or of more'),
    ("dynamodb", {}, {"a": f"{PRIVATE}\ud800"}, 'row 1, column "a": has half of a character'),
    ("postgresql", {}, {"key": PRIVATE}, 'row 1, column "key": is the name of the key'),
    ("postgresql", {}, {"a": f"{PRIVATE}\0"}, 'row 1, column "a": has the character U+0000'),
    ("postgresql", {}, {"ctid": PRIVATE}, 'column "ctid": is the name of a system column of PostgreSQL'),
    ("postgresql", {}, {"a" * 64: PRIVATE}, "has a name that PostgreSQL does not take"),
    ("postgresql", {}, {"a": PRIVATE * 150_000}, "and an invocation of Lambda by the trigger takes 1,048,117"),
    ("etcd", {}, {"body": PRIVATE * 300_000}, "row 1: has 2,100,000 bytes, and a value of etcd takes 1,571,781"),
    ("s3", {}, {"body": PRIVATE, "base64": PRIVATE}, "row 1: has both body and base64"),
    ("s3", {}, {"name": PRIVATE}, 'row 1, column "name": is nothing that a body has'),
    ("s3", {}, {"base64": f"{PRIVATE}!"}, 'row 1, column "base64": is no base64'),
    ("s3", {}, {"body": "", "suffix": PRIVATE * 9}, 'row 1, column "suffix": is no text of up to 24 bytes'),
]


@pytest.mark.parametrize(("store", "record", "row", "message"), BAD_ROWS)
def test_what_a_store_does_not_take_is_refused_by_row_and_column_and_not_shown(
    store: str, record: dict[str, Any], row: dict[str, Any], message: str
) -> None:
    """Before anything is created: the store itself would refuse each write, or Lambda each invocation."""
    with pytest.raises(RowsError) as refused:
        prepared([row], trial(store, **record))
    assert message in str(refused.value)
    assert PRIVATE not in f"{refused.value.faults}"


def test_a_column_of_several_kinds_needs_a_type() -> None:
    """And a type needs a column."""
    with pytest.raises(RowsError, match='column "a": has values of several kinds: boolean, text'):
        prepared([{"a": True}, {"a": "x"}], trial("postgresql"))
    with pytest.raises(RowsError, match='column "b": has a type and is in no row'):
        prepared([{"a": True}], trial("postgresql", {"types": {"b": "text"}}))


@pytest.mark.parametrize("weight", [-1, "x", True, None])
def test_what_is_no_weight_is_refused(weight: object) -> None:
    """Nothing is drawn by a guess."""
    with pytest.raises(RowsError, match='row 2, column "w": is no weight'):
        prepared([{"body": "", "w": 1}, {"body": "", "w": weight}], trial("s3", {"choose": "weighted", "weight": "w"}))


def test_weights_of_nothing_are_refused() -> None:
    """No row would ever be written."""
    with pytest.raises(RowsError, match="has no weight above 0"):
        prepared([{"body": "", "w": 0}], trial("s3", {"choose": "weighted", "weight": "w"}))
