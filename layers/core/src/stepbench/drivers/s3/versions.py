"""A trial's objects in a bucket, with all their versions and delete markers: found, and removed. For control only."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, NamedTuple

from stepbench.errors import TargetUnavailableError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection

    from mypy_boto3_s3.client import S3Client

    from stepbench.clock import Clock
    from stepbench.drivers.aws.access import AwsAccess

_CLEARED_FOR_NS = 20_000_000_000
"""A call starts no new page after this time; a page's requests take some seconds at most."""


LISTED_FOR_S = 120.0


class ObjectVersion(NamedTuple):
    """One version, or one delete marker."""

    key: str
    version_id: str


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
        return {version.key async for page in self.pages() for version in page}

    async def delete(self, keys: Collection[str]) -> set[str]:
        """Remove all versions of some keys; return the keys of which there was any."""
        doomed, found = frozenset(keys), set[str]()
        if not doomed:
            return found
        async for page in self.pages(os.path.commonprefix([*doomed])):  # noqa: RUF071 -- keys are no paths
            versions = [version for version in page if version.key in doomed]
            if refused := await self._delete(versions):
                message = f"bucket {self._bucket}: {refused} of {len(versions)} versions of objects cannot be deleted"
                raise TargetUnavailableError(message)
            found.update(version.key for version in versions)
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
        versions = [ObjectVersion(one["Key"], one["VersionId"]) for one in found]
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
