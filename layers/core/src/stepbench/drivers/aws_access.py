"""How the S3 and DynamoDB drivers reach AWS: boto3 in threads to prepare and clear up, our own wire to measure."""

from __future__ import annotations

import asyncio
import math
import ssl
from contextlib import asynccontextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar
from urllib.parse import urlsplit

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from stepbench.drivers.addresses import parse_endpoint, resolve
from stepbench.drivers.finishing import to_its_end
from stepbench.errors import TargetUnavailableError
from stepbench.wire.aws import CredentialSource, SignedClient
from stepbench.wire.pool import Address, Limits, Pool, parse_address
from stepbench.wire.sigv4 import Credentials, Signer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from stepbench.clock import Clock
    from stepbench.contracts.plan import TrialPlan, TrialSpec
    from stepbench.settings import Settings

P = ParamSpec("P")
T = TypeVar("T")

ANSWER_LIMIT_S = 10.0
LEAST_WARM, STANDSTILL_S = 16, 0.004
"""A write without an answer by then is UNKNOWN."""
_HTTPS_PORT = 443
_CONTROL = Config(
    retries={"mode": "standard", "total_max_attempts": 3},
    connect_timeout=5,
    read_timeout=20,
    max_pool_connections=8,
    # In us-east-1 botocore would take the global endpoint; the region's own is what a gateway endpoint serves.
    s3={"us_east_1_regional_endpoint": "regional"},
)


class AwsAccess:
    """
    One service for one trial.

    boto3 clients are made when first asked for, in the thread that needs them: they cost 0.1 s each, and a writer
    needs one only for the service's address.
    """

    def __init__(  # noqa: PLR0913 -- what a driver is given, and what it is for
        self,
        service: str,
        spec: TrialSpec,
        settings: Settings,
        clock: Clock,
        answer_limit_s: float = ANSWER_LIMIT_S,
        *,
        bucket: str = "",
        limits: Limits | None = None,
    ) -> None:
        self._service = service
        self._bucket = bucket
        self._endpoint = spec.plan.target.endpoint
        self._settings = settings
        self._clock = clock
        self._limits = limits or limits_of(spec.plan, answer_limit_s)
        self._session = boto3.session.Session(region_name=settings.aws_region)
        self._made: list[Any] = []
        self.boto: Callable[[str], Any] = cache(self._client)
        self._wire: SignedClient | None = None
        self.before_key = ""
        """What comes before the key in every path: "" where the bucket is part of the host name."""

    async def call(self, method: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """
        A control-plane call in a thread, which ends before this does, even when it is cancelled.

        (No thread can be stopped: what it makes after its caller has cleared up would belong to nobody.)

        Raises:
            TargetUnavailableError: anything but an answer, within the limits of `_CONTROL`.
        """
        try:
            return await to_its_end(asyncio.to_thread(method, *args, **kwargs))
        except (BotoCoreError, ClientError) as error:
            message = f"{self._service}: {error}"
            raise TargetUnavailableError(message) from error

    async def client(self, service: str = "") -> Any:  # noqa: ANN401 -- boto3 clients have no common type
        """The boto3 client of a service (by default this one's), made off the event loop."""
        if self._endpoint is not None:
            # Look where a plan's endpoint leads before boto3 goes there with our signature.
            await resolve(parse_endpoint(self._endpoint, _HTTPS_PORT))
        return await self.call(self.boto, service or self._service)

    @property
    def wire(self) -> SignedClient:
        """The measured path. Raises RuntimeError unless it is open."""
        if self._wire is None:
            message = "open the driver before writing"
            raise RuntimeError(message)
        return self._wire

    async def open(self) -> None:
        """Open the measured path, where it is not: read credentials, connect. Raises TargetUnavailableError."""
        if self._wire is None:
            url: str = (await self.client()).meta.endpoint_url
            address, self.before_key = bucket_address(url, self._bucket)
            self._wire = await open_wire(self._service, address, self._session, self._clock, self._limits)

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """The measured path for a block, and as it was after it."""
        was_open = self._wire is not None
        await self.open()
        try:
            yield
        finally:
            if not was_open:
                await self.close()

    async def close(self) -> None:
        """End the connections of either kind; a boto3 client that is used again makes new ones."""
        wire, self._wire = self._wire, None
        if wire is not None:
            await wire.close()
        for client in self._made:
            client.close()

    def provider(self, of_aws: str) -> str:
        """AWS's own service, the emulator that plays it, or the store at the plan's own endpoint."""
        if self._endpoint is not None:
            return f"{of_aws.removeprefix('Amazon ')} API at {urlsplit(self._endpoint).netloc}"
        return self._settings.emulator or of_aws

    def _client(self, service: str) -> Any:  # noqa: ANN401 -- boto3 clients have no common type
        own = self._endpoint if service == self._service else None
        url = own or self._settings.aws_endpoint_url or None
        client = self._session.client(service, endpoint_url=url, config=_CONTROL)  # type: ignore[call-overload]
        self._made.append(client)
        return client


def limits_of(plan: TrialPlan, answer_limit_s: float) -> Limits:
    """
    Of one writer in open loop.

    It connects ahead for as many events as become due while its machine stands still for a moment. Each of them needs a
    connection of its own then, and to connect takes more CPU than to send (4 times, with TLS 30 times): a writer that
    has fallen behind would fall behind further.
    """
    busiest = max((step.rate_per_s for phase in plan.phases for step in phase.steps), default=0) / plan.writers
    warm = min(plan.max_in_flight, max(LEAST_WARM, math.ceil(busiest * STANDSTILL_S)))
    return Limits(connections=plan.max_in_flight, answer_s=answer_limit_s, warm=warm)


async def open_wire(
    service: str, address: Address, session: boto3.session.Session, clock: Clock, limits: Limits
) -> SignedClient:
    """
    Connect to a service by our own client, with a session's credentials and region.

    Raises:
        TargetUnavailableError: it cannot be reached, or there are no credentials.
    """
    tls = await asyncio.to_thread(_tls_context, session) if address.tls else None
    client = SignedClient(
        Pool(address, clock, limits, tls),
        Signer(service, session.region_name, address.authority),
        CredentialSource(lambda: _credentials(session)),
        clock,
    )
    try:
        await client.open(limits.warm)
    except TargetUnavailableError:
        await client.close()
        raise
    return client


def _credentials(session: boto3.session.Session) -> Credentials | None:
    found = session.get_credentials()
    if found is None:
        return None
    frozen = found.get_frozen_credentials()
    return Credentials(frozen.access_key or "", frozen.secret_key or "", frozen.token or "")


def _tls_context(session: boto3.session.Session) -> ssl.SSLContext:
    bundle = session._session.get_config_variable("ca_bundle")  # noqa: SLF001 -- as boto3's own clients do
    return ssl.create_default_context(cafile=bundle)


def bucket_address(url: str, bucket: str) -> tuple[Address, str]:
    """
    Where to connect for a bucket ("" for other services), and what comes before the key in each path.

    On AWS the bucket is a part of the host name, as S3 wants it; everywhere else, and for a name with a dot that no
    wildcard certificate covers, it begins the path.
    """
    address = parse_address(url)
    if bucket and "." not in bucket and ".amazonaws.com" in address.host:
        return address._replace(host=f"{bucket}.{address.host}"), ""
    return address, f"/{bucket}" if bucket else ""


def error_code(error: TargetUnavailableError) -> str:
    """The service's code behind a failed `AwsAccess.call`; "" where no service answered."""
    cause = error.__cause__
    return str(cause.response.get("Error", {}).get("Code", "")) if isinstance(cause, ClientError) else ""
