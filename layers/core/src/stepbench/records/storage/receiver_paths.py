"""
The results table and the results bucket as receivers and transfers reach them: a few small requests, without boto3.

What they store is what `TrialTable` and `RunStore` store; analysis cannot tell which it was.
"""

from __future__ import annotations

import base64
import json
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from stepbench.errors import RecordsUnavailableError
from stepbench.records.storage import layout
from stepbench.records.storage.t4_store import RecordTable
from stepbench.wire.http1.blocking import BlockingClient, RequestFailedError
from stepbench.wire.http1.sigv4 import Credentials, Form, s3_path

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from stepbench.wire.http1.blocking import RetryLimits

_PUT, _GET = (
    Form("POST", (("content-type", "application/x-amz-json-1.0"), ("x-amz-target", f"DynamoDB_20120810.{operation}")))
    for operation in ("PutItem", "GetItem")
)
_READ = Form("GET")
_FILES = {kind: Form("PUT", (("content-type", kind),)) for kind in ("application/json", "text/plain")}


MOST_BYTES = 2**30
"""Of a file that is read: a DAG's input, and the specification of a trial."""


class ReceiverTable(RecordTable):
    """The results table as a receiver reaches it. What fails raises a RecordsUnavailableError that names it."""

    def __init__(self, client: BlockingClient, name: str, ttl_days: int) -> None:
        self._client = client
        self._name = name
        self._ttl_s = ttl_days * 86_400

    def put_row(self, pk: str, sk: str, attributes: Mapping[str, Any]) -> None:
        """See `RecordTable`."""
        item = {"pk": pk, "sk": sk, "expires_at": int(time.time()) + self._ttl_s, **attributes}
        self._request(_PUT, {"Item": {name: _attribute(value) for name, value in item.items()}})

    def flag(self, tag: str, name: str) -> str | None:
        """Return the reason for which the flag is set, or None."""
        key = {"pk": {"S": layout.trial_pk(tag)}, "sk": {"S": name}}
        found = self._request(_GET, {"Key": key, "ConsistentRead": True}).get("Item")
        return None if found is None else str(found["reason"]["S"])

    def _request(self, form: Form, what: dict[str, Any]) -> dict[str, Any]:
        body = json.dumps({"TableName": self._name, **what}).encode()
        try:
            answer: dict[str, Any] = json.loads(self._client.send(form, "/", body).body)
        except (RequestFailedError, ValueError) as error:
            message = f"results table {self._name}: {error}"
            raise RecordsUnavailableError(message) from error
        return answer


class ReceiverBucket:
    """Implements as much of `RunStore` as a receiver needs."""

    def __init__(self, client: BlockingClient, bucket: str, before_key: str = "") -> None:
        """`before_key` comes before the key in every path; it is "" where the bucket is part of the host name."""
        self._client = client
        self._bucket = bucket
        self._before_key = before_key

    def put_bytes(self, key: str, body: bytes, content_type: str) -> None:
        """Store a document of one of the kinds in `_FILES`. Raises RecordsUnavailableError."""
        try:
            self._client.send(_FILES[content_type], self._before_key + s3_path(key), body)
        except RequestFailedError as error:
            message = f"cannot write s3://{self._bucket}/{key}: {error}"
            raise RecordsUnavailableError(message) from error

    def get_bytes(self, key: str) -> bytes:
        """Read a file's content. Raises RecordsUnavailableError: also where there is none."""
        try:
            return self._client.send(_READ, self._before_key + s3_path(key), b"", MOST_BYTES).body
        except RequestFailedError as error:
            message = f"cannot read s3://{self._bucket}/{key}: {error}"
            raise RecordsUnavailableError(message) from error


def open_table(
    environ: Mapping[str, str], retry: RetryLimits, started_s: Callable[[], float] | None = None
) -> ReceiverTable:
    """
    Open the table that the environment of a Lambda function names, as `settings.Settings` reads it.

    `retry` and `started_s` go to `BlockingClient`, the latter as `begun_s`.

    Raises:
        KeyError: it names none.
    """
    url = _endpoint("dynamodb", environ) or _aws_url("dynamodb", environ)
    client = _client("dynamodb", url, environ, retry, started_s)
    return ReceiverTable(client, environ["RESULTS_TABLE"], int(environ.get("RECORDS_TTL_DAYS") or 30))


def open_bucket(
    environ: Mapping[str, str], retry: RetryLimits, started_s: Callable[[], float] | None = None
) -> ReceiverBucket:
    """
    Open the bucket that the environment of a Lambda function names.

    See `bucket_place` for where it is.
    """
    place = bucket_place(environ["RESULTS_BUCKET"], environ)
    return ReceiverBucket(_client("s3", place.url, environ, retry, started_s), place.bucket, place.before_key)


class BucketPlace(NamedTuple):
    """Where a bucket is. url: of scheme, host and port. before_key: see `ReceiverBucket`."""

    bucket: str
    url: str
    before_key: str


def bucket_place(bucket: str, environ: Mapping[str, str], endpoint: str = "") -> BucketPlace:
    """
    Return where a bucket is.

    On AWS it is a part of the host name, unless it has a dot, which no wildcard certificate covers; with the endpoint
    of an emulator, or of another server that speaks S3's protocol, it begins the path.
    """
    elsewhere = endpoint or _endpoint("s3", environ)
    if elsewhere:
        return BucketPlace(bucket, elsewhere, f"/{bucket}")
    if "." in bucket:
        return BucketPlace(bucket, _aws_url("s3", environ), f"/{bucket}")
    return BucketPlace(bucket, _aws_url("s3", environ, f"{bucket}."), "")


def credentials_of(environ: Mapping[str, str]) -> Credentials:
    """Return what an environment such as a Lambda function's holds."""
    names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
    return Credentials(*(environ.get(name, "") for name in names))


def region_of(environ: Mapping[str, str]) -> str:
    """Return the region that an environment names."""
    return environ.get("AWS_REGION") or "us-east-1"


def _client(
    service: str, url: str, environ: Mapping[str, str], retry: RetryLimits, started_s: Callable[[], float] | None
) -> BlockingClient:
    credentials, authorities = credentials_of(environ), environ.get("AWS_CA_BUNDLE")
    place = service, region_of(environ), url
    return BlockingClient(*place, credentials, retry, begun_s=started_s, authorities=authorities)


def _aws_url(service: str, environ: Mapping[str, str], before_host: str = "") -> str:
    region = region_of(environ)
    suffix = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
    return f"https://{before_host}{service}.{region}.{suffix}"


def _endpoint(service: str, environ: Mapping[str, str]) -> str:
    return environ.get(f"AWS_ENDPOINT_URL_{service.upper()}") or environ.get("AWS_ENDPOINT_URL", "")


def _attribute(value: Any) -> dict[str, Any]:  # noqa: ANN401 -- what an item holds
    match value:
        case bool():  # before int, which it is too
            return {"BOOL": value}
        case int():
            return {"N": str(value)}
        case str():
            return {"S": value}
        case bytes():
            return {"B": base64.b64encode(value).decode()}
        case dict():
            return {"M": {name: _attribute(each) for name, each in value.items()}}
        case _:
            return {"L": [{"S": text} for text in value]}
