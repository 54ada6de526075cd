"""The notification configuration: one document that we share with others."""

from __future__ import annotations

from typing import Any

import pytest

from stepbench.drivers.s3.trigger import (
    DELETED,
    ObjectVersions,
    has_notification,
    notification,
    with_notification,
    without_notification,
)
from stepbench.errors import TargetUnavailableError

ARN = "arn:aws:lambda:us-east-1:000000000000:function:ReceiveEvents"
OURS = notification("aaaaaaaaaa-0000", "aaaaaaaaaa-0000/", ARN)
FOREIGN: dict[str, Any] = {"Id": "x", "LambdaFunctionArn": ARN, "Events": ["s3:ObjectRemoved:*"]}
OTHERS: dict[str, Any] = {
    "QueueConfigurations": [{"Id": "q", "QueueArn": "arn", "Events": ["s3:ObjectCreated:*"]}],
    "EventBridgeConfiguration": {},
    "LambdaFunctionConfigurations": [FOREIGN],
}


def test_a_suffix_is_a_rule_of_its_own_beside_the_prefix() -> None:
    """An empty one would be refused, and by a suffix alone a trial would be sent every other's events."""
    rules = notification("a", "a/", ARN, suffix=".json")["Filter"]["Key"]["FilterRules"]
    assert rules == [{"Name": "prefix", "Value": "a/"}, {"Name": "suffix", "Value": ".json"}]
    assert len(OURS["Filter"]["Key"]["FilterRules"]) == 1


def test_adding_and_removing_leaves_the_rest_as_it_was() -> None:
    """Queues, EventBridge and other functions of the same bucket are not ours to drop."""
    during = with_notification(OTHERS, OURS)
    assert during == OTHERS | {"LambdaFunctionConfigurations": [FOREIGN, OURS]}
    assert without_notification(during, "aaaaaaaaaa-0000/") == OTHERS


def test_a_trial_s_entry_is_of_puts_or_of_deletions_only() -> None:
    """Preparing a trial of deletes writes keys, and tear-down deletes what a trial of puts wrote: no events."""
    assert OURS["Events"] == ["s3:ObjectCreated:Put"]
    assert notification("a", "a/", ARN, DELETED)["Events"] == ["s3:ObjectRemoved:DeleteMarkerCreated"]


def test_an_entry_is_known_by_its_exact_prefix() -> None:
    """Not by its id, which S3 may change, and not by a prefix of the prefix."""
    config = with_notification({}, OURS)
    assert has_notification(config, "aaaaaaaaaa-0000/")
    assert not has_notification(config, "aaaaaaaaaa-000")
    assert not has_notification(OTHERS, "aaaaaaaaaa-0000/")
    assert without_notification(config, "bbbbbbbbbb-0000/") == config


def test_s3s_own_spelling_of_the_rule_is_read() -> None:
    """S3 answers "Prefix" where it was told "prefix"; unread, each retry would add an entry, which S3 refuses."""
    answered = {**OURS, "Filter": {"Key": {"FilterRules": [{"Name": "Prefix", "Value": "aaaaaaaaaa-0000/"}]}}}
    assert has_notification({"LambdaFunctionConfigurations": [answered]}, "aaaaaaaaaa-0000/")


class EndlessList:
    """A bucket whose every page says that there is another."""

    def __init__(self) -> None:
        self.pages = 0

    async def client(self) -> Any:  # noqa: ANN401 -- boto3's
        """Return what `call` is given a method of."""
        return self

    def list_object_versions(self) -> None:
        """Name the method."""

    async def call(self, _method: object, **_request: object) -> dict[str, Any]:
        """Answer."""
        self.pages += 1
        return {"IsTruncated": True, "NextKeyMarker": f"{self.pages}", "NextVersionIdMarker": "v"}


async def test_a_list_without_end_ends_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of its pages is in time."""
    monkeypatch.setattr("stepbench.drivers.s3.trigger.LISTED_FOR_S", 0.05)
    bucket: Any = EndlessList()
    with pytest.raises(TargetUnavailableError, match="its objects were not listed"):
        await ObjectVersions(bucket, "bucket", "tag").keys()
    assert bucket.pages > 0
