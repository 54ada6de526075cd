"""The S3 and DynamoDB drivers' way to AWS: boto3 in threads to prepare and clear up, our own wire to measure."""

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
from botocore.exceptions import BotoCoreError, ClientError, SSLError
from botocore.parsers import ResponseParserError

from stepbench.drivers.access import library_fault, parse_endpoint, resolve, unavailable
from stepbench.errors import StepbenchError, TargetUnavailableError, TargetUnreachableError
from stepbench.model.errors import TIMEOUT
from stepbench.model.pending import uncancellable
from stepbench.wire.http1.aws import CredentialSource, SignedClient
from stepbench.wire.http1.boto import bounded_client
from stepbench.wire.http1.pool import HttpAddress, HttpPool, PoolLimits, parse_address
from stepbench.wire.http1.sigv4 import Credentials, Form, Signer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from stepbench.clock import Clock
    from stepbench.contracts.plan import TrialPlan, TrialSpec
    from stepbench.settings import Settings

P = ParamSpec("P")
T = TypeVar("T")

ANSWER_LIMIT_S = 10.0
"""A write without an answer by then is UNKNOWN."""
LEAST_WARM, STANDSTILL_S = 16, 0.004
FIRST_ANSWER_LIMIT_S = 5.0
_HTTPS_PORT = 443
_LASTING_CODES = frozenset(
    {
        *("InvalidAccessKeyId", "InvalidClientTokenId", "SignatureDoesNotMatch", "UnrecognizedClientException"),
        *("400", "404", "405"),  # of HTTP, from a server that has no code of AWS's to say
    }
)
_CONTROL = Config(
    retries={"mode": "standard", "total_max_attempts": 3}, connect_timeout=5, read_timeout=20, max_pool_connections=8
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
        limits: PoolLimits | None = None,
        tls: bool | None = None,
        is_store: bool = True,
    ) -> None:
        """
        Connect nothing yet.

        Args:
            service: as boto3 names it.
            spec: the trial.
            settings: of the stack.
            clock: of the measured path.
            answer_limit_s: for one request.
            bucket: S3's.
            limits: of the measured path; None: those of one writer.
            tls: of the measured path; None: as the service's URL says.
            is_store: whether it is the store under test, which a plan may have elsewhere than AWS.
        """
        self._service = service
        self._bucket = bucket
        self._tls = tls
        self._endpoint = spec.offered.target.endpoint if is_store else None
        self._settings = settings
        self._clock = clock
        self._limits = limits or limits_of(spec.offered, answer_limit_s)
        self._session = boto3.session.Session(region_name=settings.aws_region)
        self._clients: list[Any] = []
        self.boto: Callable[[str], Any] = cache(self._client)
        self._wire: SignedClient | None = None
        self.path_prefix = ""
        """The part before the key in every path: "" where the bucket is part of the host name."""

    async def call(self, method: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """
        Make a control-plane call in a thread, which ends before this does, even when it is cancelled.

        (No thread can be stopped: what it makes after its caller has cleared up would belong to nobody.)

        Raises:
            TargetUnavailableError: anything but an answer, within the limits of `_CONTROL`.
        """
        try:
            return await uncancellable(asyncio.to_thread(method, *args, **kwargs))
        except (BotoCoreError, ClientError, ResponseParserError) as error:
            message = f"{self._service}: {error}"
            raise (TargetUnreachableError if _is_lasting(error) else TargetUnavailableError)(message) from error
        except StepbenchError:
            raise
        except Exception as error:
            raise library_fault(self._service, error) from error

    async def client(self, service: str = "") -> Any:  # noqa: ANN401 -- boto3 clients have no common type
        """Return the boto3 client of a service, by default this one's, made off the event loop."""
        if self._endpoint is not None:
            # Look where a plan's endpoint leads before boto3 goes there with our signature.
            await resolve(parse_endpoint(self._endpoint, _HTTPS_PORT))
        return await self.call(self.boto, service or self._service)

    async def ask(self, operation: str, service: str = "", **request: Any) -> dict[str, Any]:  # noqa: ANN401 -- boto3's
        """Return the answer to a control-plane call, named as boto3 names it. Raises as `call`."""
        client = await self.client(service)
        answer: dict[str, Any] = await self.call(getattr(client, operation), **request)
        return answer

    async def credentials(self) -> Credentials:
        """Return those that boto3 finds. Raises TargetUnavailableError."""
        source = CredentialSource(lambda: _credentials(self._session))
        await source.refresh()
        return source.current

    @property
    def wire(self) -> SignedClient:
        """Return the measured path. Raises RuntimeError unless it is open."""
        if self._wire is None:
            message = "open the driver before writing"
            raise RuntimeError(message)
        return self._wire

    async def open(self) -> None:
        """
        Open the measured path, where it is not: read credentials, connect.

        A server at a plan's own endpoint is asked for something, too: it might take connections and never answer.

        Raises:
            TargetUnavailableError: it cannot be reached, or there are no credentials.
        """
        if self._wire is None:
            meta = (await self.client()).meta
            address, self.path_prefix = bucket_address(measured_url(meta.endpoint_url, tls=self._tls), self._bucket)
            signed_as = meta.service_model.signing_name
            self._wire = await open_wire(signed_as, address, self._session, self._clock, self._limits)
            if self._endpoint is not None:
                await _require_answer(self._wire, self._endpoint)

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Have the measured path open for a block, and as it was after it."""
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
        for client in self._clients:
            client.close()

    def provider(self, aws_name: str) -> str:
        """Return what serves: AWS's service, the emulator that plays it, or the store at the plan's own endpoint."""
        if self._endpoint is not None:
            return f"{aws_name.removeprefix('Amazon ')} API at {urlsplit(self._endpoint).netloc}"
        return self._settings.emulator or aws_name

    def _client(self, service: str) -> Any:  # noqa: ANN401 -- boto3 clients have no common type
        own = self._endpoint if service == self._service else None
        url = own or self._settings.aws_endpoint_url or None
        client = bounded_client(self._session.client(service, endpoint_url=url, config=_CONTROL))  # type: ignore[call-overload]
        self._clients.append(client)
        return client


async def _require_answer(wire: SignedClient, endpoint: str) -> None:
    """See that there is an answer of HTTP, whatever it says. Raises TargetUnavailableError."""
    try:
        async with asyncio.timeout(FIRST_ANSWER_LIMIT_S):
            exchange = await wire.exchange(Form("GET"), "/", b"")
    except TimeoutError as error:
        raise unavailable(endpoint, TIMEOUT) from error
    if exchange.error:
        raise unavailable(endpoint, exchange.error)


def _is_lasting(error: Exception) -> bool:
    """Return whether the same would come however long we waited; rights may still have to spread on AWS."""
    if isinstance(error, ClientError):
        return error.response.get("Error", {}).get("Code", "") in _LASTING_CODES
    return isinstance(error, ResponseParserError | SSLError)


def limits_of(plan: TrialPlan, answer_limit_s: float) -> PoolLimits:
    """
    Return the limits of one writer in open loop.

    It connects ahead for as many events as become due while its machine stands still for a moment. Each of them needs a
    connection of its own then, and to connect takes more CPU than to send (4 times, with TLS 30 times): a writer that
    has fallen behind would fall behind further.
    """
    busiest = max((step.rate_per_s for phase in plan.phases for step in phase.steps), default=0) / plan.writers
    warm = min(plan.max_in_flight, max(LEAST_WARM, math.ceil(busiest * STANDSTILL_S)))
    return PoolLimits(connections=plan.max_in_flight, answer_s=answer_limit_s, warm=warm)


async def open_wire(
    service: str, address: HttpAddress, session: boto3.session.Session, clock: Clock, limits: PoolLimits
) -> SignedClient:
    """
    Connect to a service by our own client, with a session's credentials and region.

    Raises:
        TargetUnavailableError: it cannot be reached, or there are no credentials.
    """
    tls = await asyncio.to_thread(_tls_context, session) if address.tls else None
    client = SignedClient(
        HttpPool(address, clock, limits, tls),
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


def measured_url(url: str, *, tls: bool | None) -> str:
    """
    Return where the load goes, whose encryption may differ from that of boto3's requests.

    AWS's DynamoDB also answers plain HTTP, at port 80.

    Raises:
        TargetUnreachableError: TLS is asked for of a service that has none.
    """
    if tls is None or tls == url.startswith("https://"):
        return url
    if tls:
        message = f"target.tls is true, and {url} speaks plain HTTP. Remove target.tls, or run it on AWS"
        raise TargetUnreachableError(message)
    return f"http://{url.removeprefix('https://')}"


def bucket_address(url: str, bucket: str) -> tuple[HttpAddress, str]:
    """
    Return where to connect for a bucket ("" for other services), and what stands before the key in each path.

    On AWS the bucket is a part of the host name, as S3 wants it; everywhere else, and for a name with a dot that no
    wildcard certificate covers, it begins the path.
    """
    address = parse_address(url)
    if bucket and "." not in bucket and ".amazonaws.com" in address.host:
        return address._replace(host=f"{bucket}.{address.host}"), ""
    return address, f"/{bucket}" if bucket else ""


def error_code(error: TargetUnavailableError) -> str:
    """Return the service's code behind a failed `AwsAccess.call`; "" where no service answered."""
    cause = error.__cause__
    return str(cause.response.get("Error", {}).get("Code", "")) if isinstance(cause, ClientError) else ""
