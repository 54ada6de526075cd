"""What Cost Explorer says of a rehearsal: it is a day late, and each question costs a cent."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from stepbench_tools.rehearsal.inventory import TAG
from stepbench_tools.rehearsal.record import Bill

if TYPE_CHECKING:
    from stepbench_tools.rehearsal.record import Rehearsal

EXPLORER_REGION = "us-east-1"
_METRIC = "UnblendedCost"


def read_bill(explorer: Any, rehearsal: Rehearsal) -> Bill:  # noqa: ANN401 -- a boto3 client
    """
    Return the bill of the rehearsal's days.

    Args:
        explorer: a client of Cost Explorer.
        rehearsal: one that has ended.

    Raises:
        ClientError: Cost Explorer is not enabled, has no such days, or may not be asked.
    """
    region = {"Dimensions": {"Key": "REGION", "Values": [rehearsal.region]}}
    tag = {"Tags": {"Key": TAG, "Values": [rehearsal.stack]}}
    account, settled = _by_service(explorer, rehearsal, region)
    tagged, also_settled = _by_service(explorer, rehearsal, tag)
    return Bill(tagged=tagged, account=account, settled=settled and also_settled)


def days(rehearsal: Rehearsal) -> dict[str, str]:
    """Return the rehearsal's days as Cost Explorer takes them: UTC, the end excluded."""
    start = datetime.fromisoformat(rehearsal.started_at).astimezone(UTC)
    end = datetime.fromisoformat(rehearsal.ended_at or rehearsal.started_at).astimezone(UTC)
    return {"Start": f"{start:%Y-%m-%d}", "End": f"{end + timedelta(days=1):%Y-%m-%d}"}


def _by_service(explorer: Any, rehearsal: Rehearsal, which: dict[str, Any]) -> tuple[dict[str, float], bool]:  # noqa: ANN401
    """Return dollars by service, without those that cost nothing, and whether all of it is final."""
    sums: dict[str, float] = {}
    settled, token = True, ""
    while True:
        answer = explorer.get_cost_and_usage(
            TimePeriod=days(rehearsal),
            Granularity="DAILY",
            Metrics=[_METRIC],
            Filter=which,
            GroupBy=[{"Type": "DIMENSION", "Key": "SERVICE"}],
            **({"NextPageToken": token} if token else {}),
        )
        for day in answer["ResultsByTime"]:
            settled = settled and not day["Estimated"]
            for group in day["Groups"]:
                (service,) = group["Keys"]
                sums[service] = sums.get(service, 0.0) + float(group["Metrics"][_METRIC]["Amount"])
        token = answer.get("NextPageToken", "")
        if not token:
            return {service: usd for service, usd in sums.items() if usd}, settled
