"""
How a server that belongs to a stack or a plan is reached: which it is, its address, who we are to it, connections.

A name is no way round the ban on metadata services. To look one up is a request to a server that is not under test, so
a driver does it before t1 and keeps the answer.
"""

from __future__ import annotations

import asyncio
import json
import socket
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar
from urllib.parse import urlsplit

from stepbench.contracts.endpoint import forbidden_name
from stepbench.errors import PlanError, Problem, StepbenchError, TargetUnavailableError, TargetUnreachableError
from stepbench.model.errors import connect_error, is_lasting, lost_connection, with_login_remedy
from stepbench.settings import Settings
from stepbench.wire.connect import tls_context

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable

    from stepbench.contracts.plan import TrialSpec


RESOLVE_LIMIT_S = 5.0
ConnectionT = TypeVar("ConnectionT")


class Endpoint(NamedTuple):
    """One `[scheme://]host[:port][/path]`, taken apart; `path` without its slash."""

    scheme: str
    host: str
    port: int
    path: str


def parse_endpoint(text: str, default_port: int) -> Endpoint:
    """
    Take an address of a store apart.

    Raises:
        PlanError: there is no host in it, or the port is no number.
    """
    try:
        parts = urlsplit(text if "://" in text else f"//{text}")
        host, port = parts.hostname or "", parts.port or default_port
    except ValueError:
        host, port = "", 0
    if not host:
        raise endpoint_error(text, "is not an address", "Write host:port.")
    return Endpoint(parts.scheme, host, port, parts.path.strip("/"))


def endpoint_error(value: str | None, message: str, remedy: str) -> PlanError:
    """Return the refusal of a target's endpoint."""
    return PlanError([Problem(path="target.endpoint", value=repr(value), message=message, remedy=remedy)])


async def resolve(endpoint: Endpoint) -> str:
    """
    Return the numeric address to connect to, IPv4 first, once all that the name has are judged.

    Raises:
        TargetUnavailableError: the name has no address now; TargetUnreachableError: there is no such name.
        PlanError: it has one that is never allowed, beside whatever others.
    """
    try:
        async with asyncio.timeout(RESOLVE_LIMIT_S):
            found = await asyncio.get_running_loop().getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM)
    except OSError as error:
        message = f"{endpoint.host} has no address: {error or 'no answer from the name server'}"
        raise (TargetUnreachableError if is_lasting(error) else TargetUnavailableError)(message) from error
    if refusal := forbidden_name(endpoint.host, (str(entry[4][0]) for entry in found)):
        raise endpoint_error(endpoint.host, refusal, "Name the store's own address.")
    return str(min(found, key=lambda entry: entry[0] != socket.AF_INET)[4][0])


class AddressBook:
    """The addresses that names have been resolved to."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], str] = {}

    async def find(self, host: str, port: int) -> str:
        """Return the host's address, looked up if it is not known. Raises as `resolve`."""
        address = self._known.get((host, port))
        if address is None:
            address = self._known[host, port] = await resolve(Endpoint("", host, port, ""))
        return address

    async def learn(self, nodes: Iterable[tuple[str, int]]) -> None:
        """Look hosts up, each with its port; what has no address now is looked up again when it is needed."""
        await asyncio.gather(*(self._try(host, port) for host, port in nodes))

    def forget(self, host: str, port: int) -> None:
        """Drop an address at which nobody answered: a node that was replaced has its name and another address."""
        self._known.pop((host, port), None)

    async def connect(self, host: str, port: int, connect: Callable[[str], Awaitable[ConnectionT]]) -> ConnectionT:
        """
        Connect to a host's address, which is forgotten if nobody answers there.

        Raises:
            OSError: `connect` raised it.
            TargetUnavailableError, PlanError: as `resolve`.
        """
        address = await self.find(host, port)
        try:
            return await connect(address)
        except OSError:
            self.forget(host, port)
            raise

    async def _try(self, host: str, port: int) -> None:
        with suppress(StepbenchError):
            await self.find(host, port)


def stack_endpoint(spec: TrialSpec, settings: Settings) -> str:
    """
    Return the address of the stack's server that serves the trial, `host:port/database`.

    Where the stack knows a server for TLS, that one serves operations without TLS, too: so the two differ in TLS only.
    """
    of_operations = settings.postgresql_tls_endpoint if spec.plan.workload is not None else ""
    return of_operations or settings.postgresql_endpoint


def control_client(service: str, region: str) -> Any:  # noqa: ANN401 -- boto3 clients have no common type
    """Return a boto3 client for a few requests, which are retried, and end in total."""
    import boto3  # noqa: PLC0415 -- a task that has no use for it starts in half the time without
    from botocore.config import Config  # noqa: PLC0415

    from stepbench.wire.http1.boto import bounded_client  # noqa: PLC0415

    bounds = Config(connect_timeout=5, read_timeout=10, retries={"mode": "standard", "max_attempts": 3})
    return bounded_client(boto3.client(service, region_name=region, config=bounds))  # type: ignore[call-overload]


def read_login(secret_arn: str, region: str) -> tuple[str, str]:
    """
    Return user name and password; takes a request, so call it on a thread, once.

    Raises:
        TargetUnavailableError: the secret cannot be read, or is no JSON with `username` and `password`.
    """
    from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415 -- see `control_client`

    try:
        secret = json.loads(
            control_client("secretsmanager", region).get_secret_value(SecretId=secret_arn)["SecretString"]
        )
        return str(secret["username"]), str(secret["password"])
    except (BotoCoreError, ClientError) as error:
        message = f"the secret {secret_arn} cannot be read: {error}"
        raise TargetUnavailableError(message) from error
    except (KeyError, TypeError, ValueError) as error:
        message = f"the secret {secret_arn} holds no username and password as JSON"
        raise TargetUnavailableError(message) from error


class _Connection(Protocol):
    def close(self) -> None: ...


class _Connected(Protocol):
    @property
    def connection(self) -> _Connection: ...


ConnectedT = TypeVar("ConnectedT", bound=_Connected)


def choose_endpoint(spec: TrialSpec, stack_endpoint: str, store: str) -> str:
    """
    Return the plan's own endpoint, or else the stack's; `store` is the name in the stack's parameter, if it has one.

    Raises:
        PlanError: neither names a server.
    """
    endpoint = spec.offered.target.endpoint or stack_endpoint
    if not endpoint:
        parameter = f", or the stack's parameter {store[:1].upper()}{store[1:]}Endpoint"
        has_parameter = f"{store.lower()}_endpoint" in Settings.model_fields
        remedy = f"Give target.endpoint{parameter if has_parameter else ''}."
        raise endpoint_error(None, f"no {store} is known to this stack", remedy)
    return endpoint


class ServerLimits(NamedTuple):
    """
    How long things may take.

    connect_s: for TCP, TLS and login together. operate_s: then an operation is UNKNOWN. control_s: the limit for
    a request of preparing and clearing up.
    """

    connect_s: float = 5.0
    operate_s: float = 10.0
    control_s: float = 30.0


class ServerLogin:
    """
    The user name and password for a server, and the TLS that is spoken with it; each is read once, when it is needed.

    The secret belongs to the stack's server: another one, which a plan names, never gets to see it.

    Args:
        spec: of the trial.
        settings: of the stack.
        secret_arn: the stack's secret with user name and password, "" for none.
        anonymous: user name and password without a secret.
        tls: whether it is spoken with `tls_context`.
    """

    def __init__(
        self, spec: TrialSpec, settings: Settings, secret_arn: str, anonymous: tuple[str, str], *, tls: bool = False
    ) -> None:
        self.secret_arn = "" if spec.offered.target.endpoint else secret_arn
        self._settings = settings
        self._tls = tls
        self._context: ssl.SSLContext | None = None
        self._login = None if self.secret_arn else anonymous

    async def read(self) -> tuple[str, str]:
        """Return user name and password. Raises TargetUnavailableError."""
        if self._login is None:
            self._login = await asyncio.to_thread(read_login, self.secret_arn, self._settings.aws_region)
        return self._login

    def tls_context(self) -> ssl.SSLContext | None:
        """Return the context that verifies the server's certificate; None without TLS."""
        if self._tls and self._context is None:
            self._context = tls_context(self._settings.tls_authority or None)
        return self._context


@asynccontextmanager
async def control_connection(server: str, connecting: Awaitable[ConnectedT]) -> AsyncIterator[ConnectedT]:
    """
    Yield a connection for preparing and clearing up, and close it.

    Raises:
        TargetUnavailableError: as `unavailable`.
        PlanError: the address is one that is never allowed.
    """
    try:
        connected = await connecting
    except OSError as error:
        raise unavailable(server, error) from error
    try:
        yield connected
    finally:
        connected.connection.close()


def unavailable(server: str, reason: str | Exception) -> TargetUnavailableError:
    """
    Return the error of a control method: which server, why, and how it is given a login, where it refused one.

    It is a TargetUnreachableError where waiting is no use.
    """
    if isinstance(reason, str):
        reason = lost_connection(reason)
    of_system = isinstance(reason, ConnectionError | TimeoutError) and (reason.errno is not None or not str(reason))
    text = connect_error(reason) if of_system else str(reason) or type(reason).__name__
    lasts = isinstance(reason, TargetUnreachableError) or is_lasting(reason)
    message = with_login_remedy(f"{server}: {text}", text)
    return (TargetUnreachableError if lasts else TargetUnavailableError)(message)


def library_fault(server: str, error: Exception) -> TargetUnavailableError:
    """Return the error of what botocore breaks at: a redirect to itself, another shape, endless nesting."""
    found = f"{type(error).__name__}: {error}"
    return TargetUnavailableError(f"{server}: it answers what AWS's library cannot read ({found})")
