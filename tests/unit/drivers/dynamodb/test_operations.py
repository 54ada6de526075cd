"""Requests of DynamoDB operations, from the operation alone, and what answers say."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepbench.contracts.workload import Kind, Workload
from stepbench.drivers.dynamodb.operations import OperationRequests, batch_of_unprocessed, call_result, unprocessed
from stepbench.model.request import Outcome, Request
from stepbench.wire.http1 import HttpAnswer
from stepbench.wire.http1.connection import HttpExchange
from stepbench.workload.checks import RecordCheck
from stepbench.workload.operations import Contents
from stepbench.workload.products import Products

REQUESTS = OperationRequests("t-1")
PRODUCT = Products(7).product(5)


def answered(body: bytes, status: int = 200) -> HttpExchange:
    """Return an answer with this body."""
    return HttpExchange(1, 2, HttpAnswer(status, b"", body, reusable=True))


def test_a_product_has_an_attribute_for_each_field_and_numbers_are_numbers() -> None:
    """Items of twelve attributes are what the publication measured."""
    (call,) = REQUESTS.calls(Request(Kind.INSERT, "k", b"", PRODUCT))
    item = json.loads(call.body)["Item"]
    assert item.pop("pk") == {"S": "k"}
    assert {name: next(iter(typed.values())) for name, typed in item.items()} == PRODUCT
    assert (item["price"].keys(), item["name"].keys()) == ({"N"}, {"S"})


def test_an_update_sets_its_fields_and_no_others() -> None:
    """Placeholders stand for names: `count` is a reserved word of DynamoDB's expressions."""
    (call,) = REQUESTS.calls(Request(Kind.UPDATE, "k", b"", {"count": "5", "city": "Berlin"}))
    assert json.loads(call.body) == {
        "TableName": "t-1",
        "Key": {"pk": {"S": "k"}},
        "UpdateExpression": "SET #n0=:v0,#n1=:v1",
        "ExpressionAttributeNames": {"#n0": "count", "#n1": "city"},
        "ExpressionAttributeValues": {":v0": {"N": "5"}, ":v1": {"S": "Berlin"}},
    }


@pytest.mark.parametrize(("fields", "action"), [(None, "PutItem"), ({"count": "5"}, "UpdateItem")])
def test_a_read_modify_write_reads_first(fields: dict[str, str] | None, action: str) -> None:
    """Then it overwrites a blob, or updates a product."""
    calls = REQUESTS.calls(Request(Kind.READ_MODIFY_WRITE, "k", b"v", fields))
    assert [dict(call.form.headers)["x-amz-target"].partition(".")[2] for call in calls] == ["GetItem", action]
    assert [call.reads for call in calls] == ["k", ""]


def test_reads_are_eventually_consistent_unless_the_preloading_asks() -> None:
    """DynamoDB's default; a preload that goes by an old answer would begin from nothing."""
    assert "ConsistentRead" not in json.loads(REQUESTS.get("k").body)
    assert json.loads(REQUESTS.get("k", consistent=True).body)["ConsistentRead"] is True


def test_a_scan_is_a_mistake() -> None:
    """A plan that asks DynamoDB for it is refused."""
    with pytest.raises(ValueError, match="no scan"):
        REQUESTS.calls(Request(Kind.SCAN, "k", rows=3))


@given(st.text(st.characters(exclude_categories=["Cs"])), st.text(st.characters(exclude_categories=["Cs"])))
def test_any_key_and_blob_survive_the_body(key: str, value: str) -> None:
    """Bodies are written by template."""
    operation = Request(Kind.INSERT, key, value.encode())
    item = {"pk": {"S": key}, "value": {"S": value}}
    assert json.loads(REQUESTS.calls(operation)[0].body) == {"TableName": "t-1", "Item": item}
    assert json.loads(REQUESTS.get(key).body) == {"TableName": "t-1", "Key": {"pk": {"S": key}}}
    assert json.loads(REQUESTS.batch([operation]).body) == {"RequestItems": {"t-1": [{"PutRequest": {"Item": item}}]}}


def test_an_answer_without_an_item_is_not_found_to_a_read_alone() -> None:
    """PutItem answers with the same empty object."""
    found, nothing = answered(b'{"Item":{"pk":{"S":"k"}}}'), answered(b"{}")
    assert call_result(found, "k").outcome is Outcome.OK
    assert call_result(nothing).outcome is Outcome.OK
    assert call_result(nothing, "k")[2:5] == (Outcome.FAILED, "", "not_found")


@pytest.mark.parametrize("shape", ["blob", "product"])
def test_what_an_item_has_is_compared(shape: str) -> None:
    """DynamoDB sends attributes in any order, and numbers without the zeros at their end."""
    workload = Workload.model_validate({"record": {"shape": shape}})
    record = next(each for each in map(Contents(workload, "t").preloaded, range(200)) if _ends_in_zeros(each))
    check, item = RecordCheck(workload, "t"), json.loads(REQUESTS.batch([record]).body)["RequestItems"]["t-1"][0]
    sent = item["PutRequest"]["Item"]
    if record.fields:
        sent["price"]["N"] = sent["price"]["N"].rstrip("0").rstrip(".")
    name = "value" if record.fields is None else "seller"
    wrongs: list[dict[str, Any]] = [{}, {name: {"S": "x"}}, {name: "odd"}, {name: {}}]
    for wrong in wrongs:
        for more in ({}, {"ConsumedCapacity": {"TableName": "t-1"}}):
            body = json.dumps({**more, "Item": dict(reversed({**sent, **wrong}.items()))}).encode()
            assert call_result(answered(body), record.key, check).error == ("wrong_value" if wrong else "")
    for odd in (b'{"Item":[]}', b'{"Item"', b'["Item"]', b'{"Item":{"pk":"k"}}'):
        assert call_result(answered(odd), record.key, check).error == "wrong_value"


def _ends_in_zeros(record: Request) -> bool:
    return record.fields is None or record.fields["price"].endswith(".00")


def test_what_a_batch_left_is_what_is_sent_again() -> None:
    """Nothing is sent again where all was done."""
    left = {"t-1": [{"PutRequest": {"Item": {"pk": {"S": "k"}}}}]}
    assert unprocessed(answered(json.dumps({"UnprocessedItems": left}).encode())) == left
    assert json.loads(batch_of_unprocessed(left).body) == {"RequestItems": left}
    assert unprocessed(answered(b'{"UnprocessedItems":{}}')) == {}
    assert unprocessed(answered(b"{}")) == {}
