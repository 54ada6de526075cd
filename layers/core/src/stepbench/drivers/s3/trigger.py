"""
S3: event notifications for one prefix of the stack's versioned bucket call `ReceiveEvents`.

The prefix is the filter: keys of events that it is to hold back have another head. A suffix may be asked for beside it,
which all keys have then.
"""

from __future__ import annotations

import asyncio
import os
from functools import partial
from typing import TYPE_CHECKING, Any

from stepbench.contracts.identity import matching_head
from stepbench.contracts.target import S3Target
from stepbench.contracts.workload import Kind
from stepbench.drivers.aws import ANSWER_LIMIT_S, AwsAccess, error_code
from stepbench.drivers.preload import preload_keys, write_each
from stepbench.drivers.protocol import in_turn
from stepbench.drivers.receivers import build_receiver
from stepbench.errors import TargetUnavailableError
from stepbench.wire.http1.aws import SignedRequest, write_result, xml_error_code
from stepbench.wire.http1.sigv4 import Form, s3_path

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection

    from mypy_boto3_s3.client import S3Client

    from stepbench.clock import Clock
    from stepbench.contracts.plan import TrialSpec
    from stepbench.model.request import PendingRequest, Request, Result
    from stepbench.settings import Settings
    from stepbench.wire.http1 import HttpAnswer
    from stepbench.wire.http1.connection import HttpRequest
    from stepbench.workload.values import PreparedValues

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
        self._receiver = build_receiver(spec, settings, clock)
        self._prefix = matching_head(spec.tag)
        target = spec.offered.target
        self._suffix = target.suffix if isinstance(target, S3Target) else ""
        self._aws = AwsAccess("s3", spec, settings, clock, answer_limit_s, bucket=self._bucket)
        self._values: PreparedValues | None = None

    def use_values(self, values: PreparedValues) -> None:
        """See `TakesValues`."""
        self._values = values

    async def open(self) -> None:
        """Read credentials and connect. Raises TargetUnavailableError."""
        await self._aws.open()

    async def prepare(self) -> None:
        """
        Preload the keys of updates or deletes, then turn on the notification.

        In this order, because the receiver knows an update by its version id: a preloaded version would be one that
        no writer has recorded.
        """
        await self._receiver.ensure()
        s3: S3Client = await self._aws.client()
        versioning = await self._aws.call(s3.get_bucket_versioning, Bucket=self._bucket)
        if versioning.get("Status") != "Enabled":
            message = f"bucket {self._bucket} keeps no versions, which distinguish updates; enable versioning"
            raise TargetUnavailableError(message)
        config = await self._notifications(s3)
        if has_notification(config, self._prefix):
            return
        if self._spec.offered.preloaded_keys:
            async with self._aws.opened():
                await preload_keys(self._spec, write_each(self.prepare_request), self._clock, values=self._values)
        events = DELETED if self._spec.offered.record.operation == "delete" else CREATED
        entry = notification(self._spec.tag, self._prefix, self._receiver.arn, events, self._suffix)
        await self._aws.call(
            s3.put_bucket_notification_configuration,
            Bucket=self._bucket,
            NotificationConfiguration=with_notification(config, entry),  # type: ignore[arg-type]
        )

    async def ready(self) -> bool:
        """Return whether the bucket reports the notification; S3 may still take minutes to act on it."""
        noted = has_notification(await self._notifications(await self._aws.client()), self._prefix)
        return noted and await self._receiver.ready()

    def prepare_request(self, request: Request) -> PendingRequest:
        """Return a PUT or a DELETE of one object; in a versioned bucket that adds a delete marker with a version id."""
        path = self._aws.path_prefix + s3_path(request.key + self._suffix)
        return SignedRequest(
            self._aws.wire, _DELETE if request.kind is Kind.DELETE else _PUT, path, request.value, _object_written
        )

    async def tear_down(self) -> bool:
        """Remove the notification, then every version and delete marker of the trial, and what the trial invoked."""
        return await in_turn(self._clear_bucket, self._receiver.remove)

    async def _clear_bucket(self) -> bool:
        s3: S3Client = await self._aws.client()
        versions = ObjectVersions(self._aws, self._bucket, self._spec.tag)
        try:
            return await in_turn(partial(self._remove_notification, s3), partial(versions.delete_all, self._clock))
        except TargetUnavailableError as error:
            if error_code(error) != "NoSuchBucket":
                raise
        return True

    def resource_names(self) -> tuple[str, ...]:
        """See `Driver`."""
        place = f"s3://{self._bucket}/{self._prefix}"
        return f"notification on {place}", f"objects {place}*, all versions", *self._receiver.resource_names()

    async def close(self) -> None:
        """End connections."""
        await self._receiver.close()
        await self._aws.close()

    async def provider(self) -> str:
        """Return what serves the bucket."""
        return self._aws.provider("Amazon S3")

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


def _object_written(sending: HttpRequest, t2_ns: int, answer: HttpAnswer | None, error: str) -> Result:
    return write_result(sending.exchange(t2_ns, answer, error), xml_error_code, VERSION_HEADER)


def notification(tag: str, prefix: str, receiver_arn: str, events: str = CREATED, suffix: str = "") -> dict[str, Any]:
    """Return the bucket's entry for one trial, for puts or deletions alone: preparing and tear-down fire nothing."""
    ends = [{"Name": "suffix", "Value": suffix}] if suffix else []
    return {
        "Id": f"stepbench-{tag}",
        "LambdaFunctionArn": receiver_arn,
        "Events": [events],
        "Filter": {"Key": {"FilterRules": [{"Name": "prefix", "Value": prefix}, *ends]}},
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


_CLEARED_FOR_NS = 20_000_000_000
"""A call starts no new page after this time; a page's requests take some seconds at most."""


LISTED_FOR_S = 120.0


ObjectVersion = tuple[str, str]
"""Key and version id of one version, or of one delete marker."""


class ObjectVersions:
    """The versions whose keys begin with a prefix. All methods raise TargetUnavailableError."""

    def __init__(self, aws: AwsAccess, bucket: str, prefix: str) -> None:
        self._aws = aws
        self._bucket = bucket
        self._prefix = prefix

    async def first_page(self) -> list[ObjectVersion]:
        """Return up to 1,000."""
        return (await self._page(self._prefix, {}))[0]

    async def pages(self, prefix: str = "") -> AsyncIterator[list[ObjectVersion]]:
        """Yield all, up to 1,000 at a time; with a longer prefix, of those only."""
        place: dict[str, str] | None = {}
        loop = asyncio.get_running_loop()
        until_s = loop.time() + LISTED_FOR_S
        while place is not None:
            if loop.time() >= until_s:
                message = f"bucket {self._bucket}: its objects were not listed within {LISTED_FOR_S:g} s"
                raise TargetUnavailableError(message)
            page, place = await self._page(prefix or self._prefix, place)
            yield page

    async def keys(self) -> set[str]:
        """Return the keys of which there is anything."""
        return {key async for page in self.pages() for key, _ in page}

    async def delete(self, keys: Collection[str]) -> set[str]:
        """Remove all versions of some keys; return the keys of which there was any."""
        doomed, found = frozenset(keys), set[str]()
        if not doomed:
            return found
        async for page in self.pages(os.path.commonprefix([*doomed])):  # noqa: RUF071 -- keys are no paths
            versions = [version for version in page if version[0] in doomed]
            if refused := await self._delete(versions):
                message = f"bucket {self._bucket}: {refused} of {len(versions)} versions of objects cannot be deleted"
                raise TargetUnavailableError(message)
            found.update(key for key, _ in versions)
        return found

    async def delete_all(self, clock: Clock) -> bool:
        """Remove all that is there, for some 20 s a call; return whether nothing is left."""
        until_ns = clock.now_ns() + _CLEARED_FOR_NS
        while page := await self.first_page():
            await self._delete(page)
            if clock.now_ns() >= until_ns:
                return False
        return True

    async def _page(self, prefix: str, place: dict[str, str]) -> tuple[list[ObjectVersion], dict[str, str] | None]:
        """Return a page, and where the next one begins; None: this was the last."""
        s3: S3Client = await self._aws.client()
        page = await self._aws.call(s3.list_object_versions, Bucket=self._bucket, Prefix=prefix, **place)  # type: ignore[arg-type]
        found = [*page.get("Versions", ()), *page.get("DeleteMarkers", ())]
        versions = [(one["Key"], one["VersionId"]) for one in found]
        if not page.get("IsTruncated"):
            return versions, None
        return versions, {"KeyMarker": page["NextKeyMarker"], "VersionIdMarker": page["NextVersionIdMarker"]}

    async def _delete(self, versions: list[ObjectVersion]) -> int:
        """Remove up to 1,000 versions; return how many have stayed."""
        if not versions:
            return 0
        s3: S3Client = await self._aws.client()
        doomed = [{"Key": key, "VersionId": version_id} for key, version_id in versions]
        answer = await self._aws.call(
            s3.delete_objects,
            Bucket=self._bucket,
            Delete={"Objects": doomed, "Quiet": True},  # type: ignore[typeddict-item]
        )
        if len(refused := answer.get("Errors", [])) == len(doomed):
            message = f"bucket {self._bucket}: nothing under {self._prefix} can be deleted: {refused[0]}"
            raise TargetUnavailableError(message)
        return len(refused)
