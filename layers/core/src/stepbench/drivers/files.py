"""
Files to transfer, on S3 and EFS: whether the bucket answers, and who serves it.

They stay from trial to trial: tear-down leaves them.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from stepbench.deferred import deferred
from stepbench.drivers.access import library_fault
from stepbench.drivers.protocol import StoreRoom
from stepbench.errors import TargetUnavailableError, TargetUnreachableError

if TYPE_CHECKING:
    from stepbench.clock import Clock
    from stepbench.contracts.plan import TrialSpec
    from stepbench.settings import Settings

AMAZON = {"s3": "Amazon S3", "efs": "Amazon EFS"}
_MISSING = frozenset({"404", "NoSuchBucket"})
_REFUSED = frozenset({"401", "403"})


class FilesDriver:
    """
    Asks the bucket, where the trial reads from S3; of a file system only its mount knows.

    Requests are the program's own (`stepbench.experiments.transfer.program`), and files are made by `SeedFiles`: there
    is nothing to prepare, and nothing to remove, since they stay from trial to trial and go with the stack.
    """

    def __init__(self, spec: TrialSpec, settings: Settings, _clock: Clock) -> None:
        self._plan = spec.transfer
        self._settings = settings

    async def open(self) -> None:
        """Do nothing: `ready` asks."""

    async def prepare(self) -> None:
        """Do nothing: `SeedFiles` makes the files."""

    async def ready(self) -> bool:
        """Return True once the bucket has answered. Raises TargetUnavailableError."""
        if "s3" in self._plan.sources:
            await asyncio.to_thread(self._head)
        return True

    async def tear_down(self) -> bool:
        """Leave the files where they are."""
        return True

    def resource_names(self) -> tuple[str, ...]:
        """Name nothing: a trial makes nothing of its own."""
        return ()

    async def close(self) -> None:
        """Do nothing: no connection is kept."""

    async def provider(self) -> str:
        """Return what serves each source: `Amazon S3; Amazon EFS`."""
        stand_ins = await self.stand_ins()
        return "; ".join(stand_ins.get(source, AMAZON[source]) for source in self._plan.sources)

    async def stand_ins(self) -> dict[str, str]:
        """Return what is measured in place of S3, EFS, Lambda and Fargate, where something is."""
        found = {}
        if "s3" in self._plan.sources and (server := await asyncio.to_thread(self._describe_s3)):
            found["s3"] = server
        if self._settings.emulator:
            local = {"efs": "local file system", "lambda": "process", "fargate": "process"}
            found |= {each: local[each] for each in (*self._plan.sources, *self._plan.platforms) if each in local}
        return found

    def _describe_s3(self) -> str:
        """Name what stands for S3; "" for S3 itself."""
        if self._plan.target.endpoint is None:
            return self._settings.emulator
        server = str(self._head()["ResponseMetadata"]["HTTPHeaders"].get("server", ""))
        return f"{server or 'a server of its protocol'}, not S3"

    def _head(self) -> dict[str, Any]:
        import boto3  # noqa: PLC0415 -- the registry imports this module for others' leases, too
        from botocore.config import Config  # noqa: PLC0415
        from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415

        from stepbench.wire.http1.boto import bounded_client  # noqa: PLC0415

        bucket, endpoint = self._settings.files_bucket, self._plan.target.endpoint
        bounds = Config(
            connect_timeout=3, read_timeout=5, retries={"total_max_attempts": 1}, s3={"addressing_style": "path"}
        )
        region = self._settings.aws_region
        client = bounded_client(boto3.client("s3", endpoint_url=endpoint, region_name=region, config=bounds))
        where = endpoint or "S3"
        try:
            answer = dict(client.head_bucket(Bucket=bucket))
        except ClientError as error:
            message = f"{where}: bucket {bucket} cannot be used: {error}"
            if endpoint and error.response["Error"]["Code"] in _MISSING:
                return {"ResponseMetadata": error.response["ResponseMetadata"]}  # `SeedFiles` makes it there
            if error.response["Error"]["Code"] in _REFUSED:
                raise TargetUnreachableError(message) from error
            raise TargetUnavailableError(message) from error
        except BotoCoreError as error:
            message = f"{where} does not answer for bucket {bucket}: {error}"
            raise TargetUnavailableError(message) from error
        except Exception as error:
            raise library_fault(where, error) from error
        return answer


ROOM = StoreRoom(
    lease=lambda _spec, settings: settings.files_bucket, transfer=deferred("stepbench.drivers.files:FilesDriver")
)
