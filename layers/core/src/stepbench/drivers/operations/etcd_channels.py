"""A gRPC channel to etcd that clients share, connected before it is used, and replaced after a fault."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import grpc

from stepbench.drivers.etcd_cluster import Channel, EtcdLimits, channel_to, unary
from stepbench.errors import PlanError, TargetUnavailableError

if TYPE_CHECKING:
    from stepbench.drivers.addresses import Addresses, Endpoint

CONNECT_LIMIT_S = 5.0


class Calls:
    """What is asked over one channel: from bytes to bytes, so that times are taken outside serialising and parsing."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.range = unary(channel, "KV/Range")
        self.put = unary(channel, "KV/Put")
        self.txn = unary(channel, "KV/Txn")
        self.users = 0
        """Operations that have begun over it and not ended; many are of more than one call."""


async def locate(endpoint: Endpoint, addresses: Addresses) -> str:
    """
    Its address.

    Raises:
        OSError: it has none that may be asked.
    """
    try:
        return await addresses.of(endpoint.host, endpoint.port)
    except (TargetUnavailableError, PlanError) as error:
        raise ConnectionError(str(error)) from error


async def dial(endpoint: Endpoint, address: str, limits: EtcdLimits) -> Calls:
    """
    A channel of its own, connected; `address` is the endpoint's.

    Raises:
        OSError: nobody is there, or not in time.
    """
    channel = channel_to(endpoint, address, limits)
    try:
        async with asyncio.timeout(CONNECT_LIMIT_S):
            await _connected(channel)
    except BaseException:
        await channel.close()
        raise
    return Calls(channel)


async def _connected(channel: Channel) -> None:
    while (state := channel.get_state(try_to_connect=True)) is not grpc.ChannelConnectivity.READY:
        if state in {grpc.ChannelConnectivity.TRANSIENT_FAILURE, grpc.ChannelConnectivity.SHUTDOWN}:
            message = "no connection"
            raise ConnectionError(message)
        await channel.wait_for_state_change(state)


class ClientChannel:
    """For some clients; one that breaks takes what is under way for all of them along."""

    def __init__(self, endpoint: Endpoint, addresses: Addresses, limits: EtcdLimits) -> None:
        self._endpoint = endpoint
        self._addresses = addresses
        self._limits = limits
        self._calls: Calls | None = None
        self._turn = asyncio.Lock()
        self._replaced: set[Calls] = set()
        self._ending: set[asyncio.Task[None]] = set()

    async def calls(self) -> Calls:
        """Over a connected channel: a new one where there is none. Raises OSError."""
        if self._calls is None:
            async with self._turn:
                if self._calls is None:
                    self._calls = await self._dial()
        return self._calls

    async def enter(self) -> Calls:
        """As `calls`, for an operation from its first call to its last; `leave` follows. Raises OSError."""
        calls = await self.calls()
        calls.users += 1
        return calls

    def leave(self, calls: Calls) -> None:
        """An operation has ended, in whatever way."""
        calls.users -= 1
        self._end_unused(calls)

    def replace(self, broken: Calls) -> None:
        """Have whoever comes next make a new one; the old one ends with the last operation that has entered it."""
        if self._calls is broken:
            self._calls = None
            self._replaced.add(broken)
            self._end_unused(broken)

    def _end_unused(self, calls: Calls) -> None:
        if calls.users == 0 and calls in self._replaced:
            self._replaced.remove(calls)
            ending = asyncio.create_task(calls.channel.close())
            self._ending.add(ending)
            ending.add_done_callback(self._ending.discard)

    async def _dial(self) -> Calls:
        address = await locate(self._endpoint, self._addresses)
        try:
            return await dial(self._endpoint, address, self._limits)
        except OSError:
            self._addresses.forget(self._endpoint.host, self._endpoint.port)
            raise

    async def close(self) -> None:
        """End all connections; safe to call twice."""
        last, self._calls = self._calls, None
        open_ones = [*self._replaced, *([] if last is None else [last])]
        self._replaced.clear()
        await asyncio.gather(*self._ending, *(each.channel.close() for each in open_ones))
