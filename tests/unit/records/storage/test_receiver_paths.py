"""Where a bucket is: on AWS, behind an emulator, on another server that speaks S3's protocol."""

from __future__ import annotations

import pytest

from stepbench.records.storage.receiver_paths import BucketPlace, bucket_place

IRELAND = {"AWS_REGION": "eu-west-1"}
EMULATOR = {**IRELAND, "AWS_ENDPOINT_URL": "http://127.0.0.1:4566"}
CASES = {
    "in the host's name": ("files", IRELAND, "", BucketPlace("files", "https://files.s3.eu-west-1.amazonaws.com", "")),
    "with a dot, which no certificate covers": (
        "my.files",
        IRELAND,
        "",
        BucketPlace("my.files", "https://s3.eu-west-1.amazonaws.com", "/my.files"),
    ),
    "in China": (
        "files",
        {"AWS_REGION": "cn-north-1"},
        "",
        BucketPlace("files", "https://files.s3.cn-north-1.amazonaws.com.cn", ""),
    ),
    "behind an emulator": ("files", EMULATOR, "", BucketPlace("files", "http://127.0.0.1:4566", "/files")),
    "where the plan says": ("files", EMULATOR, "http://gw:7070", BucketPlace("files", "http://gw:7070", "/files")),
}


@pytest.mark.parametrize(("bucket", "environ", "endpoint", "place"), CASES.values(), ids=CASES)
def test_a_bucket_is_where_its_kind_has_it(
    bucket: str, environ: dict[str, str], endpoint: str, place: BucketPlace
) -> None:
    """An address that is wrong is met on AWS only."""
    assert bucket_place(bucket, environ, endpoint) == place
