"""Requests that the DynamoDB driver makes, from the plan alone."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.contracts.trigger_subject import contract_spec
from tests.support.fake_clock import FakeClock

from stepbench.contracts.capacity import Capacity, OnDemandCapacity, ProvisionedCapacity
from stepbench.contracts.target import DynamoDbTarget
from stepbench.contracts.workload import Kind
from stepbench.drivers.dynamodb.items import ItemRequests
from stepbench.drivers.dynamodb.table import scaling_request, stream_of, table_request
from stepbench.drivers.dynamodb.trigger import DynamoDbDriver, mapping_request, with_filter
from stepbench.model.request import Request
from stepbench.settings import Settings

TEN, TWENTY = ProvisionedCapacity(write_units=10), ProvisionedCapacity(write_units=20)
ON_DEMAND, WARM = OnDemandCapacity(), OnDemandCapacity(warm_write_units=8_000)
TEN_UNITS = {"ReadCapacityUnits": 5, "WriteCapacityUnits": 10}


def provisioned(**more: Any) -> dict[str, Any]:  # noqa: ANN401 -- as DescribeTable shows it
    """Return a provisioned table of ten write units; DescribeTable has no summary for one that was never else."""
    return {"ProvisionedThroughput": {**TEN_UNITS, "NumberOfDecreasesToday": 0}, **more}


def on_demand(warm_units: int) -> dict[str, Any]:
    """Return a table that pays per request."""
    return {
        "BillingModeSummary": {"BillingMode": "PAY_PER_REQUEST"},
        "ProvisionedThroughput": {"ReadCapacityUnits": 0, "WriteCapacityUnits": 0},
        "WarmThroughput": {"ReadUnitsPerSecond": 12_000, "WriteUnitsPerSecond": warm_units, "Status": "ACTIVE"},
    }


def test_a_table_is_made_with_the_plans_capacity() -> None:
    """The capacity at the start is what a scaling step is compared with."""
    assert table_request(TEN)["ProvisionedThroughput"] == TEN_UNITS
    warm = table_request(WARM)
    assert (warm["BillingMode"], warm["WarmThroughput"]) == ("PAY_PER_REQUEST", {"WriteUnitsPerSecond": 8_000})
    assert "WarmThroughput" not in table_request(ON_DEMAND)


@pytest.mark.parametrize(
    ("operation", "image"),
    [("put", ("NewImage", "value")), ("update", ("NewImage", "value")), ("delete", ("Keys", "pk"))],
)
def test_the_filter_looks_at_the_head_of_what_tells_the_event(operation: Any, image: tuple[str, str]) -> None:  # noqa: ANN401 -- a literal, by parameter
    """A deletion has no new image; an update's key tells of many events."""
    spec = contract_spec({"store": "dynamodb"}, operation, 2 if operation == "update" else None, matching_share=0.5)
    assert isinstance(spec.plan.target, DynamoDbTarget)
    request = mapping_request(with_filter(spec.plan.target, spec), "stream", "receiver", "")
    (pattern,) = request["FilterCriteria"]["Filters"]
    of, attribute = image
    assert json.loads(pattern["Pattern"]) == {"dynamodb": {of: {attribute: {"S": [{"prefix": f"{spec.tag}/"}]}}}}


def test_without_a_share_the_plan_s_own_filter_stands() -> None:
    """Where it has none, there is none."""
    spec = contract_spec({"store": "dynamodb", "filter": {"eventName": ["INSERT"]}})
    assert isinstance(spec.plan.target, DynamoDbTarget)
    assert with_filter(spec.plan.target, spec) == spec.plan.target


@pytest.mark.parametrize(
    ("fields", "view"),
    [({}, "NEW_IMAGE"), ({"stream_view": "new_and_old_images"}, "NEW_AND_OLD_IMAGES")],
)
def test_the_stream_has_the_plans_view_and_waits_for_the_preload(fields: dict[str, str], view: str) -> None:
    """What turns it on stands apart from the table's own request, so that it can come after the preload."""
    target = DynamoDbTarget.model_validate({"store": "dynamodb", **fields})
    assert stream_of(target) == {"StreamSpecification": {"StreamEnabled": True, "StreamViewType": view}}
    assert "StreamSpecification" not in table_request(ON_DEMAND)


@pytest.mark.parametrize(
    ("table", "capacity", "request_"),
    [
        (provisioned(), TEN, {}),
        (
            provisioned(),
            TWENTY,
            {
                "BillingMode": "PROVISIONED",
                "ProvisionedThroughput": {"ReadCapacityUnits": 5, "WriteCapacityUnits": 20},
            },
        ),
        (provisioned(), ON_DEMAND, {"BillingMode": "PAY_PER_REQUEST"}),
        (provisioned(), WARM, {"BillingMode": "PAY_PER_REQUEST"}),
        (on_demand(4_000), ON_DEMAND, {}),
        (on_demand(4_000), WARM, {"WarmThroughput": {"WriteUnitsPerSecond": 8_000}}),
        (on_demand(9_000), WARM, {}),
        (on_demand(4_000), TEN, {"BillingMode": "PROVISIONED", "ProvisionedThroughput": TEN_UNITS}),
        (on_demand(0), WARM, {}),
    ],
    ids=[
        "has it", "more units", "to on demand", "billing before warmth", "on demand", "warm up", "warmer already",
        "to provisioned", "an emulator without warmth",
    ],
)  # fmt: skip
def test_scaling_asks_for_one_change_and_only_where_one_is_due(
    table: dict[str, Any], capacity: Capacity, request_: dict[str, Any]
) -> None:
    """DynamoDB refuses two kinds of change at once, and a change to what is already so."""
    assert scaling_request(table, capacity) == request_


def test_the_mapping_request_says_everything_the_plan_says() -> None:
    """Defaults of Lambda (retry for a day, LATEST) would lose or delay events."""
    target = DynamoDbTarget(store="dynamodb", batch_size=50, batching_window_s=2, filter={"eventName": ["INSERT"]})
    assert mapping_request(target, "stream", "function", "queue") == {
        "EventSourceArn": "stream",
        "FunctionName": "function",
        "StartingPosition": "TRIM_HORIZON",
        "BatchSize": 50,
        "MaximumBatchingWindowInSeconds": 2,
        "ParallelizationFactor": 1,
        "MaximumRetryAttempts": 3,
        "MaximumRecordAgeInSeconds": 3600,
        "FunctionResponseTypes": ["ReportBatchItemFailures"],
        "FilterCriteria": {"Filters": [{"Pattern": '{"eventName": ["INSERT"]}'}]},
        "DestinationConfig": {"OnFailure": {"Destination": "queue"}},
    }


def test_a_mapping_without_filter_queue_or_window_names_none_of_them() -> None:
    """Empty ones are refused; so may be, by Lambda's API reference, a window of 0 beside more than 10 records."""
    request = mapping_request(DynamoDbTarget(store="dynamodb"), "stream", "function", "")
    assert {"FilterCriteria", "DestinationConfig", "MaximumBatchingWindowInSeconds"} & request.keys() == set()


def test_a_mapping_asks_for_partial_failures_unless_nothing_would_show_them() -> None:
    """Lambda's own lines say whether an invocation failed, and nothing of its response."""
    for times, partial in (("layer", True), ("own", True), ("platform", False)):
        target = DynamoDbTarget(store="dynamodb", batch_size=1, function={"name": "orders", "times": times})
        request = mapping_request(target, "stream", "function", "")
        assert ("FunctionResponseTypes" in request) == partial


@given(st.text(), st.text())
def test_any_key_and_value_survive_the_body(key: str, value: str) -> None:
    """The body is written by template; what json reads back is what the receiver gets."""
    try:
        body = ItemRequests("t-1").put_body(Request(Kind.INSERT, key, value.encode()))
    except UnicodeEncodeError:
        assert any("\ud800" <= character <= "\udfff" for character in key + value)  # lone surrogates are no text
        return
    assert json.loads(body) == {"TableName": "t-1", "Item": {"pk": {"S": key}, "value": {"S": value}}}


def test_a_deletion_names_its_item_whatever_the_key_holds() -> None:
    """It travels inside JSON as the put does."""
    body = ItemRequests("t-1").delete_body(Request(Kind.DELETE, 'a"\\b'))
    assert json.loads(body) == {"TableName": "t-1", "Key": {"pk": {"S": 'a"\\b'}}}


def test_another_stores_target_is_refused() -> None:
    """A mistake of the registry, not of the plan."""
    with pytest.raises(TypeError, match="serves dynamodb, not s3"):
        DynamoDbDriver(contract_spec({"store": "s3"}), Settings(results_table="r", results_bucket="r"), FakeClock())
