"""A bucket of the emulator, emptied."""

from __future__ import annotations

import pytest

from stepbench.records.storage.emptying import empty_bucket
from stepbench_tools.local.stack import local_client

BUCKET, OBJECTS = "to-be-emptied", 1_001


def test_versions_markers_and_unfinished_uploads_go_page_by_page(emulator: str) -> None:
    """S3 deletes no bucket that has any of them, and lists a thousand at a time."""
    s3 = local_client("s3", emulator)
    s3.create_bucket(Bucket=BUCKET)
    s3.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": "Enabled"})
    for number in range(OBJECTS):
        s3.put_object(Bucket=BUCKET, Key=f"key-{number:04d}", Body=b"")
    s3.put_object(Bucket=BUCKET, Key="key-0000", Body=b"again")
    s3.delete_object(Bucket=BUCKET, Key="key-0001")
    s3.create_multipart_upload(Bucket=BUCKET, Key="half")
    times = iter([True, True, False])
    partly = empty_bucket(s3, BUCKET, lambda: next(times))
    assert (partly.whole, partly.removed < OBJECTS + 3) == (False, True)
    rest = empty_bucket(s3, BUCKET)
    assert (rest.whole, partly.removed + rest.removed) == (True, OBJECTS + 3)
    assert s3.list_multipart_uploads(Bucket=BUCKET).get("Uploads", []) == []
    listed = s3.list_object_versions(Bucket=BUCKET)
    assert (listed.get("Versions", []), listed.get("DeleteMarkers", [])) == ([], [])
    s3.delete_bucket(Bucket=BUCKET)
    with pytest.raises(s3.exceptions.ClientError, match="NoSuchBucket"):
        empty_bucket(s3, BUCKET)
