"""
Entry point `DropResults`: with KeepResults=false, empty and delete the results bucket when its stack is deleted.

CloudFormation itself keeps the bucket always, and could not delete one that is not empty. Only the deletion of the
whole stack counts: a later update with KeepResults=true deletes this resource, too, and then the results stay.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from botocore.exceptions import ClientError

from stepbench.contracts.custom_resource import DropResultsInput, DropResultsOutput
from stepbench.observability import logger
from stepbench.stages.custom_resource import failed, is_of_cloudformation, put_answer, refused, succeeded

if TYPE_CHECKING:
    from collections.abc import Callable

    from mypy_boto3_s3 import S3Client

    from stepbench.services import Services
    from stepbench.stages.custom_resource import Answer

LIMIT_S = 780
"""How much of the function's 900 s may pass: the answer must still be sent, or the next call made."""
PASSES = 4
"""CloudFormation waits for an hour for an answer; four calls are 52 minutes, for some ten million versions."""
NAMED = "results"
"""The physical id. It never changes: CloudFormation deletes what an update has replaced."""
ENDING = {"DELETE_IN_PROGRESS", "ROLLBACK_IN_PROGRESS"}
"""The second is a stack that could not be made, and has no results yet."""
FILLED = "BucketNotEmpty"


def drop_results(task: DropResultsInput, services: Services, *, answer: Answer = put_answer) -> DropResultsOutput:
    """
    Delete the bucket if the stack is being deleted, and tell CloudFormation; what takes longer goes on in another call.

    Raises:
        OSError: the answer could not be delivered; Lambda then calls again, which finds what is done already.
    """
    if not is_of_cloudformation(task.ResponseURL, services.settings):
        return DropResultsOutput(reason=refused(task).Reason)
    named = task.PhysicalResourceId or NAMED
    try:
        output = _drop(task, services)
        said = succeeded(task, named)
        if not output.done:
            if task.Pass < PASSES:
                payload = task.model_copy(update={"Pass": task.Pass + 1}).model_dump_json().encode()
                name = f"{services.settings.function_prefix}-DropResults"
                services.aws("lambda").invoke(FunctionName=name, InvocationType="Event", Payload=payload)
                return output
            said = failed(task, named, output.reason)
    except Exception as error:  # noqa: BLE001 -- whatever it is, CloudFormation waits for an answer
        logger.exception("the results could not be dropped")
        said = failed(task, named, error)
        output = DropResultsOutput(done=False, reason=said.Reason)
    answer(task.ResponseURL, said.model_dump_json().encode())
    return output


def _drop(task: DropResultsInput, services: Services) -> DropResultsOutput:
    if task.RequestType != "Delete":
        return DropResultsOutput(reason="it is deleted with the stack")
    stacks = services.aws("cloudformation").describe_stacks(StackName=task.StackId)["Stacks"]
    if stacks[0]["StackStatus"] not in ENDING:
        return DropResultsOutput(reason=f"it stays: the stack is not being deleted ({stacks[0]['StackStatus']})")
    bucket, s3 = str(task.ResourceProperties["Bucket"]), services.aws("s3")
    until_ns = services.clock.now_ns() + LIMIT_S * 10**9

    def has_time() -> bool:
        return services.clock.now_ns() < until_ns

    removed, deleted = 0, False
    while not deleted and has_time():
        try:
            emptied = empty_bucket(s3, bucket, has_time)
            removed += emptied.removed
            if emptied.whole:
                s3.delete_bucket(Bucket=bucket)
                deleted = True
        except ClientError as error:  # a function that still runs has written since, or an earlier call was done
            deleted = error.response["Error"]["Code"] == "NoSuchBucket"
            if not deleted and error.response["Error"]["Code"] != FILLED:
                raise
    reason = "" if deleted else f"{bucket} is not empty after {task.Pass} calls; empty and delete it by hand"
    return DropResultsOutput(removed=removed, done=deleted, reason=reason)


class Emptied(NamedTuple):
    """How many entries (versions, delete markers, uploads) were deleted, and whether none was left behind."""

    removed: int
    whole: bool


def empty_bucket(s3: S3Client, bucket: str, has_time: Callable[[], bool] = lambda: True) -> Emptied:
    """
    Delete what is in a bucket, page by page, until there is no time for another one.

    Raises:
        ClientError: it may not be listed, or something in it may not be deleted.
    """
    removed = 0
    for uploads in s3.get_paginator("list_multipart_uploads").paginate(Bucket=bucket):
        for upload in uploads.get("Uploads", ()):
            if not has_time():
                return Emptied(removed, whole=False)
            s3.abort_multipart_upload(Bucket=bucket, Key=upload["Key"], UploadId=upload["UploadId"])
            removed += 1
    for page in s3.get_paginator("list_object_versions").paginate(Bucket=bucket):
        listed = [*page.get("Versions", ()), *page.get("DeleteMarkers", ())]
        if not listed:
            continue
        if not has_time():
            return Emptied(removed, whole=False)
        _delete(s3, bucket, [(each["Key"], each["VersionId"]) for each in listed])
        removed += len(listed)
    return Emptied(removed, whole=True)


def _delete(s3: S3Client, bucket: str, versions: list[tuple[str, str]]) -> None:
    """Delete a page of at most 1,000 versions, which is what one request takes."""
    objects = [{"Key": key, "VersionId": version} for key, version in versions]
    answer = s3.delete_objects(Bucket=bucket, Delete={"Objects": objects, "Quiet": True})  # type: ignore[typeddict-item] # Key and VersionId
    for error in answer.get("Errors", ())[:1]:
        raise ClientError({"Error": {"Code": error.get("Code", ""), "Message": str(error)}}, "DeleteObjects")
