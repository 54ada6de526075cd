"""
S3: event notifications for one prefix of the stack's versioned bucket call `ReceiveEvents`.

The prefix is the filter: keys of events that it is to hold back have another head.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from stepbench.contracts.identity import matching_head
from stepbench.contracts.workload import Kind
from stepbench.drivers.aws.access import ANSWER_LIMIT_S, AwsAccess, error_code
from stepbench.drivers.aws.answers import write_result, xml_error_code
from stepbench.drivers.preload import preload_keys, write_each
from stepbench.drivers.protocol import in_turn
from stepbench.drivers.s3.versions import ObjectVersions
from stepbench.errors import TargetUnavailableError
from stepbench.wire.http1.aws import SignedRequest
from stepbench.wire.http1.sigv4 import Form, s3_path

if TYPE_CHECKING:
    from mypy_boto3_s3.client import S3Client

    from stepbench.clock import Clock
    from stepbench.contracts.plan import TrialSpec
    from stepbench.model.request import PendingRequest, Request, Result
    from stepbench.settings import Settings
    from stepbench.wire.http1.connection import HttpRequest
    from stepbench.wire.http1.messages import HttpAnswer

VERSION_HEADER = b"x-amz-version-id"
_PUT, _DELETE = Form("PUT"), Form("DELETE")
_LAMBDAS = "LambdaFunctionConfigurations"
CREATED, DELETED = "s3:ObjectCreated:Put", "s3:ObjectRemoved:DeleteMarkerCreated"
"""A delete without a version leaves a marker; tearing down removes versions, which is another event."""


class S3Driver:
    """`Driver` for S3. Keys begin with the trial's tag; the token of a write is the object's version id."""

    def __init__(
        self, spec: TrialSpec, settings: Settings, clock: Clock, *, answer_limit_s: float = ANSWER_LIMIT_S
    ) -> None:
        self._spec = spec
        self._clock = clock
        self._bucket = settings.target_bucket
        self._receiver_arn = settings.receive_events_function_arn
        self._prefix = matching_head(spec.tag)
        self._aws = AwsAccess("s3", spec, settings, clock, answer_limit_s, bucket=self._bucket)

    async def open(self) -> None:
        """Read credentials and connect. Raises TargetUnavailableError."""
        await self._aws.open()

    async def prepare(self) -> None:
        """
        Preload the keys of updates or deletes, then turn on the notification.

        In this order, because the receiver knows an update by its version id: a preloaded version would be one that
        no writer has recorded.
        """
        s3: S3Client = await self._aws.client()
        await self._require_versions(s3)
        config = await self._notifications(s3)
        if has_notification(config, self._prefix):
            return
        if self._spec.offered.preloaded_keys:
            async with self._aws.opened():
                await preload_keys(self._spec, write_each(self.prepare_request), self._clock)
        events = DELETED if self._spec.offered.record.operation == "delete" else CREATED
        entry = notification(self._spec.tag, self._prefix, self._receiver_arn, events)
        await self._aws.call(
            s3.put_bucket_notification_configuration,
            Bucket=self._bucket,
            NotificationConfiguration=with_notification(config, entry),  # type: ignore[arg-type]
        )

    async def ready(self) -> bool:
        """Return whether the bucket reports the notification; S3 may still take minutes to act on it."""
        return has_notification(await self._notifications(await self._aws.client()), self._prefix)

    def prepare_request(self, request: Request) -> PendingRequest:
        """Return a PUT or a DELETE of one object; in a versioned bucket that adds a delete marker with a version id."""
        path = self._aws.path_prefix + s3_path(request.key)
        return SignedRequest(
            self._aws.wire, _DELETE if request.kind is Kind.DELETE else _PUT, path, request.value, _object_written
        )

    async def tear_down(self) -> bool:
        """Remove the notification, then every version and delete marker of the trial."""
        s3: S3Client = await self._aws.client()
        try:
            return await in_turn(partial(self._remove_notification, s3), self._delete_versions)
        except TargetUnavailableError as error:
            if error_code(error) != "NoSuchBucket":
                raise
        return True

    def resource_names(self) -> tuple[str, ...]:
        """See `Driver`."""
        place = f"s3://{self._bucket}/{self._prefix}"
        return f"notification on {place}", f"objects {place}*, all versions"

    async def close(self) -> None:
        """End connections."""
        await self._aws.close()

    async def provider(self) -> str:
        """Return what serves the bucket."""
        return self._aws.provider("Amazon S3")

    async def _require_versions(self, s3: S3Client) -> None:
        answer = await self._aws.call(s3.get_bucket_versioning, Bucket=self._bucket)
        if answer.get("Status") != "Enabled":
            message = f"bucket {self._bucket} keeps no versions, which distinguish updates; enable versioning"
            raise TargetUnavailableError(message)

    async def _notifications(self, s3: S3Client) -> dict[str, Any]:
        answer = await self._aws.call(s3.get_bucket_notification_configuration, Bucket=self._bucket)
        return {name: value for name, value in answer.items() if name != "ResponseMetadata"}

    async def _remove_notification(self, s3: S3Client) -> bool:
        config = await self._notifications(s3)
        if has_notification(config, self._prefix):
            await self._aws.call(
                s3.put_bucket_notification_configuration,
                Bucket=self._bucket,
                NotificationConfiguration=without_notification(config, self._prefix),  # type: ignore[arg-type]
            )
        return True

    async def _delete_versions(self) -> bool:
        versions = ObjectVersions(self._aws, self._bucket, self._spec.tag)
        return await versions.delete_all(self._clock)


def _object_written(sending: HttpRequest, t2_ns: int, answer: HttpAnswer | None, error: str) -> Result:
    return write_result(sending.exchange(t2_ns, answer, error), xml_error_code, VERSION_HEADER)


def notification(tag: str, prefix: str, receiver_arn: str, events: str = CREATED) -> dict[str, Any]:
    """Return the bucket's entry for one trial, for puts or deletions alone: preparing and tear-down fire nothing."""
    return {
        "Id": f"stepbench-{tag}",
        "LambdaFunctionArn": receiver_arn,
        "Events": [events],
        "Filter": {"Key": {"FilterRules": [{"Name": "prefix", "Value": prefix}]}},
    }


def has_notification(config: dict[str, Any], prefix: str) -> bool:
    """Return whether an entry for exactly this prefix is there."""
    return any(_is_for(entry, prefix) for entry in config.get(_LAMBDAS, ()))


def with_notification(config: dict[str, Any], entry: dict[str, Any]) -> dict[str, Any]:
    """Return the configuration with one entry more: S3 only takes it as a whole."""
    return {**config, _LAMBDAS: [*config.get(_LAMBDAS, ()), entry]}


def without_notification(config: dict[str, Any], prefix: str) -> dict[str, Any]:
    """Return the configuration less the entry for this prefix."""
    return {**config, _LAMBDAS: [entry for entry in config.get(_LAMBDAS, ()) if not _is_for(entry, prefix)]}


def _is_for(entry: dict[str, Any], prefix: str) -> bool:
    rules = entry.get("Filter", {}).get("Key", {}).get("FilterRules", ())
    # S3 answers with "Prefix" where "prefix" was set.
    return any(rule["Name"].lower() == "prefix" and rule["Value"] == prefix for rule in rules)
