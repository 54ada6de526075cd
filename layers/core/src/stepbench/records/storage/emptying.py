"""A bucket without anything in it: uploads that nobody finished, versions, delete markers."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from botocore.exceptions import ClientError

if TYPE_CHECKING:
    from collections.abc import Callable

    from mypy_boto3_s3 import S3Client


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
