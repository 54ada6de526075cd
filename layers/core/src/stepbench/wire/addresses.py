"""
Names of stores to addresses that may be connected to: a name is no way round the ban on metadata services.

To look a name up is a request to a server that is not under test, so a driver does it before t1 and keeps the answer.
"""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple, TypeVar
from urllib.parse import urlsplit

from stepbench.contracts.endpoint import forbidden_name
from stepbench.errors import PlanError, Problem, StepbenchError, TargetUnavailableError, TargetUnreachableError
from stepbench.model.errors import is_lasting

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

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
