"""When the results bucket goes with its stack, and what is said where it cannot; S3 itself is asked in integration."""

from __future__ import annotations

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError
from tests.samples.services import MemoryServices
from tests.support.fake_clock import FakeClock

from stepbench.contracts.custom_resource import DropResultsInput, DropResultsOutput
from stepbench.stages.drop_results import LIMIT_S, PASSES, drop_results

ANSWERS = "https://cloudformation-custom-resource-response-useast1.s3.amazonaws.com/answer?signed"
BUCKET = "bench-results"
PAGE_S = 100
"""So long a page takes here: eight of them are more than a call may take."""


class Bucket:
    """A bucket of several pages, each of one version; takes its time."""

    def __init__(self, clock: FakeClock, pages: int) -> None:
        self.clock = clock
        self.left = [f"key-{page}" for page in range(pages)]
        self.deleted = False
        self.filled_late = 0
        self.refusal = ""

    def get_paginator(self, operation: str) -> Any:  # noqa: ANN401 -- boto3's
        """Return pages of what is left when the listing begins."""
        keys = [] if operation == "list_multipart_uploads" else list(self.left)

        class Pages:
            def paginate(self, **_: str) -> Any:  # noqa: ANN401 -- boto3's
                return ({"Versions": [{"Key": key, "VersionId": "null"}]} for key in keys)

        return Pages()

    def delete_objects(self, *, Bucket: str, Delete: Any) -> dict[str, Any]:  # noqa: N803, ANN401 -- boto3's
        """Delete, or refuse."""
        assert Bucket == BUCKET
        self.clock.advance(PAGE_S * 10**9)
        if self.refusal:
            return {"Errors": [{"Code": self.refusal, "Key": "key-0"}]}
        for each in Delete["Objects"]:
            self.left.remove(each["Key"])
        return {}

    def delete_bucket(self, *, Bucket: str) -> None:  # noqa: N803 -- boto3's
        """Delete it if nothing is in it."""
        assert Bucket == BUCKET
        if self.filled_late:
            self.filled_late -= 1
            self.left.append("late")
        if self.left:
            raise ClientError({"Error": {"Code": "BucketNotEmpty", "Message": ""}}, "DeleteBucket")
        if self.deleted:
            raise ClientError({"Error": {"Code": "NoSuchBucket", "Message": ""}}, "DeleteBucket")
        self.deleted = True


class Scene:
    """A stack whose results bucket has some pages."""

    def __init__(self, pages: int = 2, status: str = "DELETE_IN_PROGRESS") -> None:
        self.clock = FakeClock()
        self.bucket = Bucket(self.clock, pages)
        self.status = status
        self.calls: list[dict[str, Any]] = []
        self.heard: list[dict[str, Any]] = []
        clients = {"s3": self.bucket, "cloudformation": self, "lambda": self}
        self.memory = MemoryServices(self.clock, aws=clients, function_prefix="bench")

    def describe_stacks(self, *, StackName: str) -> dict[str, Any]:  # noqa: N803 -- boto3's
        """Return the stack's status."""
        assert StackName == "stack-id"
        return {"Stacks": [{"StackStatus": self.status}]}

    def invoke(self, **call: Any) -> None:  # noqa: ANN401 -- boto3's
        """Note that a function is called."""
        self.calls.append(call)

    def ask(self, request: str = "Delete", **fields: Any) -> DropResultsOutput:  # noqa: ANN401 -- JSON
        """Call the stage as CloudFormation does."""
        event = {
            "RequestType": request,
            "ResponseURL": ANSWERS,
            "StackId": "stack-id",
            "RequestId": "request-1",
            "LogicalResourceId": "DroppedResults",
            "ResourceProperties": {"ServiceToken": "arn", "Bucket": BUCKET},
            **fields,
        }
        task = DropResultsInput.model_validate(event)
        return drop_results(task, self.memory.services, answer=lambda _url, body: self.heard.append(json.loads(body)))


@pytest.fixture
def scene() -> Scene:
    """Return a stack that is deleted."""
    return Scene()


def test_the_bucket_goes_with_its_stack(scene: Scene) -> None:
    """CloudFormation is told so, and deletes the function next."""
    assert scene.ask() == DropResultsOutput(removed=2)
    assert scene.bucket.deleted
    assert [(each["Status"], each["PhysicalResourceId"]) for each in scene.heard] == [("SUCCESS", "results")]


@pytest.mark.parametrize(
    ("request_type", "status"),
    [
        ("Create", "CREATE_IN_PROGRESS"),
        ("Update", "UPDATE_IN_PROGRESS"),
        ("Delete", "UPDATE_COMPLETE_CLEANUP_IN_PROGRESS"),
        ("Delete", "UPDATE_ROLLBACK_COMPLETE_CLEANUP_IN_PROGRESS"),
    ],
)
def test_the_bucket_stays_while_its_stack_does(request_type: str, status: str) -> None:
    """Turning KeepResults to true deletes this resource: that must not take the results that are to be kept."""
    scene = Scene(status=status)
    assert scene.ask(request_type).reason != ""
    assert not scene.bucket.deleted
    assert len(scene.bucket.left) == 2
    assert [each["Status"] for each in scene.heard] == ["SUCCESS"]


def test_what_is_written_meanwhile_is_deleted_too(scene: Scene) -> None:
    """Functions of the stack still run: its resources go one after the other."""
    scene.bucket.filled_late = 2
    assert scene.ask() == DropResultsOutput(removed=4)
    assert scene.bucket.deleted


def test_a_bucket_that_is_gone_is_as_good() -> None:
    """Lambda calls again where the answer could not be delivered."""
    scene = Scene(pages=0)
    scene.bucket.deleted = True
    assert scene.ask().done
    assert [each["Status"] for each in scene.heard] == ["SUCCESS"]


def test_a_large_bucket_takes_several_calls() -> None:
    """A function ends after fifteen minutes; CloudFormation hears of the last call only."""
    scene = Scene(pages=10)
    pages = LIMIT_S // PAGE_S + 1
    output = scene.ask()
    assert (output.removed, output.done, scene.heard) == (pages, False, [])
    (call,) = scene.calls
    assert (call["FunctionName"], call["InvocationType"]) == ("bench-DropResults", "Event")
    again = json.loads(call["Payload"])
    assert again["Pass"] == 2
    assert scene.ask(**again) == DropResultsOutput(removed=10 - pages)
    assert scene.bucket.deleted
    assert [each["Status"] for each in scene.heard] == ["SUCCESS"]


def test_calls_are_bounded_and_the_last_one_says_what_to_do() -> None:
    """CloudFormation gives up after an hour, without a reason."""
    scene = Scene(pages=100)
    output = scene.ask(Pass=PASSES)
    assert not output.done
    assert scene.calls == []
    assert [each["Status"] for each in scene.heard] == ["FAILED"]
    assert "empty and delete it by hand" in scene.heard[0]["Reason"]


def test_a_refusal_is_told_at_once(scene: Scene) -> None:
    """An hour's silence would be all that the stack's events say."""
    scene.bucket.refusal = "AccessDenied"
    assert not scene.ask().done
    assert scene.heard[0]["Status"] == "FAILED"
    assert "AccessDenied" in scene.heard[0]["Reason"]


def test_who_is_not_cloudformation_gets_nothing_done(scene: Scene) -> None:
    """The sample event names an address that is nobody's."""
    assert "nothing was done" in scene.ask(ResponseURL="https://example.com/").reason
    assert len(scene.bucket.left) == 2
    assert scene.heard == []
