"""Cost Explorer's answers, as botocore's model has them."""

from __future__ import annotations

from typing import Any

from botocore.stub import Stubber
from tests.unit.tools.rehearsal.samples import rehearsal

from stepbench_tools.local.stack import local_client
from stepbench_tools.rehearsal.bill import read_bill

DAYS = {"Start": "2026-11-23", "End": "2026-11-25"}
REGION = {"Dimensions": {"Key": "REGION", "Values": ["eu-central-1"]}}
TAG = {"Tags": {"Key": "stepbench-rehearsal", "Values": ["rehearsed"]}}


def _asked(which: dict[str, Any], **more: str) -> dict[str, Any]:
    grouped = {"Metrics": ["UnblendedCost"], "GroupBy": [{"Type": "DIMENSION", "Key": "SERVICE"}]}
    return {"TimePeriod": DAYS, "Granularity": "DAILY", "Filter": which, **grouped, **more}


def _day(costs: dict[str, str], *, estimated: bool = False) -> dict[str, Any]:
    groups = [
        {"Keys": [service], "Metrics": {"UnblendedCost": {"Amount": usd, "Unit": "USD"}}}
        for service, usd in costs.items()
    ]
    return {"TimePeriod": DAYS, "Total": {}, "Groups": groups, "Estimated": estimated}


def test_the_bill_is_summed_by_service_over_days_and_pages() -> None:
    """23:30 to 00:40 are two days, of which Cost Explorer excludes the end it is given."""
    explorer = local_client("ce", "http://127.0.0.1:9")
    with Stubber(explorer) as stub:
        first = {"ResultsByTime": [_day({"AWS Lambda": "0.10", "AmazonS3": "0"})], "NextPageToken": "more"}
        stub.add_response("get_cost_and_usage", first, _asked(REGION))
        second = {"ResultsByTime": [_day({"AWS Lambda": "0.05"}, estimated=True)]}
        stub.add_response("get_cost_and_usage", second, _asked(REGION, NextPageToken="more"))
        stub.add_response("get_cost_and_usage", {"ResultsByTime": [_day({"AWS Lambda": "0.12"})]}, _asked(TAG))
        bill = read_bill(explorer, rehearsal())
        stub.assert_no_pending_responses()
    assert bill.account == {"AWS Lambda": 0.15000000000000002}
    assert (bill.tagged, bill.settled) == ({"AWS Lambda": 0.12}, False)
