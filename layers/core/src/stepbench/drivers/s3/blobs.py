"""
Blobs in S3, or in what speaks its protocol: each is an object, written by one PUT and read by one GET.

S3 checks each body by its CRC-32. Over TLS the body is sent unsigned, as S3 allows; without TLS its hash is a part of
the put. In a versioned bucket each put adds a version, and `delete` removes them all.
"""

from __future__ import annotations

import asyncio
import os
from functools import cached_property, partial
from typing import TYPE_CHECKING

from stepbench.contracts.dataflow.dag import MAX_OBJECT_BYTES
from stepbench.drivers.access import unavailable
from stepbench.drivers.blobs import StreamPool, TimedBlobs, TransferTimes
from stepbench.model.errors import NOT_FOUND
from stepbench.model.request import Outcome
from stepbench.records.storage.receiver_paths import bucket_place, credentials_of
from stepbench.wire.connect import ServerAddress, dial, tls_context
from stepbench.wire.http1.aws import write_result, xml_error_code
from stepbench.wire.http1.connection import HttpExchange
from stepbench.wire.http1.pool import PoolLimits, parse_address
from stepbench.wire.http1.sigv4 import Form, Signer, s3_path
from stepbench.wire.http1.stream import HttpStream, send_signed, send_unsigned

if TYPE_CHECKING:
    import ssl
    from collections.abc import Sequence

    from stepbench.clock import Clock
    from stepbench.contracts.plan import TrialSpec
    from stepbench.drivers.aws import AwsAccess
    from stepbench.drivers.blobs import Verdict
    from stepbench.drivers.s3.trigger import ObjectVersions
    from stepbench.settings import Settings
    from stepbench.wire.http1.sigv4 import Credentials, Headers
    from stepbench.wire.http1.stream import Sign

_GET = Form("GET")
_CONNECT_S, _STALL_S = 5.0, 20.0
_OK, _MISSING = 200, "NoSuchKey"
_THE_BUCKET = ""


class S3Blobs(TimedBlobs):
    """`BlobStore` for S3, in the stack's bucket for targets. To control it takes boto3, which no transfer waits for."""

    def __init__(
        self,
        spec: TrialSpec,
        settings: Settings,
        clock: Clock,
        *,
        stall_s: float = _STALL_S,
    ) -> None:
        self._spec = spec
        self._settings = settings
        self._clock = clock
        self._stall_s = stall_s
        self._bucket = settings.target_bucket
        self._prefix = f"{spec.tag}/"
        endpoint = spec.offered.target.endpoint or settings.aws_endpoint_url
        place = bucket_place(self._bucket, os.environ, endpoint)
        self._address, self._before_key = parse_address(place.url), place.before_key
        self._signer = Signer("s3", settings.aws_region, self._address.authority)
        self._credentials: Credentials | None = None
        self._context: ssl.SSLContext | None = None
        self._streams = StreamPool(self._connect)

    async def open(self) -> None:
        """Read the credentials, and connect."""
        try:
            async with self._streams.use(_THE_BUCKET):
                await self._read_credentials()
        except OSError as error:
            raise unavailable(self._address.authority, error) from error

    async def prepare(self) -> None:
        """Do nothing: the bucket is the stack's."""

    async def ready(self) -> bool:
        """Return whether the bucket answers."""
        await self._versions.first_page()
        return True

    async def delete(self, keys: Sequence[str]) -> int:
        """See `BlobStore`."""
        return len(await self._versions.delete(keys))

    async def keys(self) -> tuple[str, ...]:
        """See `BlobStore`: those of delete markers, too."""
        return tuple(sorted(await self._versions.keys()))

    async def tear_down(self) -> bool:
        """Remove every version of the trial, for some 20 s a call."""
        return await self._versions.delete_all(self._clock)

    def resource_names(self) -> tuple[str, ...]:
        """See `BlobStore`."""
        return (f"objects s3://{self._bucket}/{self._prefix}*, all versions",)

    async def close(self) -> None:
        """See `BlobStore`."""
        self._streams.close()
        if "_aws" in vars(self):
            await self._aws.close()

    async def provider(self) -> str:
        """See `BlobStore`."""
        return self._aws.provider("Amazon S3")

    @cached_property
    def _aws(self) -> AwsAccess:
        from stepbench.drivers.aws import AwsAccess  # noqa: PLC0415 -- boto3, which no transfer waits for

        return AwsAccess("s3", self._spec, self._settings, self._clock, bucket=self._bucket, limits=PoolLimits())

    @cached_property
    def _versions(self) -> ObjectVersions:
        from stepbench.drivers.s3.trigger import ObjectVersions  # noqa: PLC0415 -- as above

        return ObjectVersions(self._aws, self._bucket, self._prefix)

    async def _read_credentials(self) -> Credentials:
        """Return the environment's, as a function has them; else those that boto3 finds."""
        if self._credentials is None:
            found = credentials_of(os.environ)
            self._credentials = found if found.access_key else await self._aws.credentials()
        return self._credentials

    async def _connect(self, _bucket: str) -> HttpStream:
        address = self._address
        if address.tls and self._context is None:
            self._context = await asyncio.to_thread(tls_context, os.environ.get("AWS_CA_BUNDLE") or None)
        async with asyncio.timeout(_CONNECT_S):
            server = ServerAddress(address.host, address.port, self._context)
            build = partial(HttpStream, stall_s=self._stall_s)
            return (await dial(server, self._clock, build)).connection

    async def _put(self, key: str, view: memoryview, times: TransferTimes) -> Verdict:
        credentials = await self._read_credentials()
        async with self._streams.use(_THE_BUCKET) as stream:
            times.begin()
            sign, send = self._sign_put(key, credentials), send_unsigned if self._address.tls else send_signed
            was_taken = await send(stream, sign, view)
            times.hand_over()
            answer = await stream.answer()
            if not was_taken:
                stream.close()  # it would take the rest of the body for the next request
        result = write_result(HttpExchange(0, 0, answer), xml_error_code)
        return result.outcome, result.error

    async def _get(self, key: str, times: TransferTimes, found: list[bytearray]) -> Verdict:
        credentials = await self._read_credentials()
        async with self._streams.use(_THE_BUCKET) as stream:
            times.begin()
            await stream.send(self._signer.signed(_GET, self._path(key), b"", credentials, self._clock.now_ns()))
            await stream.receive()
            times.first_byte()
            head = await stream.head()
            if head.status == _OK:
                found.append(await stream.body(head, MAX_OBJECT_BYTES))
                return Outcome.OK, ""
            answer = await stream.answer()
        error = xml_error_code(answer.body) or f"HTTP {answer.status}"
        return Outcome.FAILED, NOT_FOUND if error == _MISSING else error

    def _sign_put(self, key: str, credentials: Credentials) -> Sign:
        def sign(headers: Headers, body_sha256: str, body_bytes: int) -> bytes:
            form, now_ns = Form("PUT", headers), self._clock.now_ns()
            return self._signer.signed_head(form, self._path(key), body_sha256, body_bytes, credentials, now_ns)

        return sign

    def _path(self, key: str) -> str:
        return self._before_key + s3_path(key)
