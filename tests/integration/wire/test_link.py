"""The wire's part of a driver for a store of lines, over TCP: what a newcomer's driver has to write, and no more."""

from __future__ import annotations

import asyncio
import gc
import socket
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
from tests.samples.ports import silent_port
from tests.support.example_store.connection import ParsedConnection, dial_parsed, parse_line

from stepbench.clock import AnchoredClock
from stepbench.drivers.access import AddressBook
from stepbench.errors import TargetUnavailableError
from stepbench.model.pending import result_of
from stepbench.model.request import Outcome
from stepbench.wire.connect import ServerAddress
from stepbench.wire.link import LinkedRequest, Links
from stepbench.wire.socket import ask_for_stamps, receive_stamped

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

CLIENTS = 3
ROUNDS = 20


class LineDriver:
    """Connections of some clients to a store that answers "ok <number>" or "no <reason>"."""

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port
        self._clock = AnchoredClock()
        self._addresses = AddressBook()
        self.links = Links(self._connect, self._clock)

    def request(self, client: int, line: bytes) -> LinkedRequest[bytes, bytes]:
        """Return a request with all done but the sending."""
        return LinkedRequest(self.links[client], line + b"\n", self._judge)

    async def _connect(self, _client: int) -> ParsedConnection[bytes]:
        return await self._addresses.connect(self._host, self._port, self._connect_to)

    async def _connect_to(self, address: str) -> ParsedConnection[bytes]:
        destination = ServerAddress(address, self._port)
        return (await dial_parsed(destination, self._clock, parse_line, answer_s=2.0)).connection

    @staticmethod
    def _judge(answer: bytes) -> tuple[Outcome, str, str]:
        word, _, rest = answer.decode().partition(" ")
        return (Outcome.OK, rest, "") if word == "ok" else (Outcome.FAILED, "", rest)


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Number the lines of a connection; refuse those that ask for it, and end the connection where that is asked."""
    number = 0
    while (line := (await reader.readline()).strip()) not in (b"", b"end"):
        number += 1
        writer.write(b"no reason\r\n" if line == b"refuse" else b"ok %d\r\n" % number)
    writer.close()


@asynccontextmanager
async def driving() -> AsyncIterator[LineDriver]:
    """Yield a driver in front of a server."""
    served: list[asyncio.Task[None] | None] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.append(asyncio.current_task())
        await _serve(reader, writer)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    driver = LineDriver("localhost", server.sockets[0].getsockname()[1])
    try:
        yield driver
    finally:
        driver.links.close()
        server.close()
        await server.wait_closed()
        await asyncio.gather(*(task for task in served if task is not None))


async def test_requests_of_a_client_share_its_connection_until_it_ends() -> None:
    """A connection that broke costs the request under way; the next one makes another."""
    async with driving() as driver:
        await driver.links.open(range(CLIENTS))
        lines = (b"a", b"refuse", b"c", b"end", b"e")
        results = [await result_of(driver.request(0, line)) for line in lines]
        other = await result_of(driver.request(1, b"a"))
    assert [(each.outcome, each.token, each.error) for each in [*results, other]] == [
        (Outcome.OK, "1", ""),
        (Outcome.FAILED, "", "reason"),
        (Outcome.OK, "3", ""),
        (Outcome.UNKNOWN, "", "connection-closed"),
        (Outcome.OK, "1", ""),
        (Outcome.OK, "1", ""),
    ]
    assert all(each.t1_ns < each.t2_ns for each in results)


async def test_where_nobody_answers_nothing_is_sent() -> None:
    """Each request says so; ahead of the load, it is the end of the trial."""
    async with driving() as driver:
        pass
    with silent_port(driver._port):
        result = await result_of(driver.request(0, b"a"))
        assert (result.outcome, result.error) == (Outcome.FAILED, "connect: refused")
        again = LineDriver(driver._host, driver._port)
        with pytest.raises(TargetUnavailableError, match="Connect call failed"):
            await again.links.open(range(CLIENTS))


async def test_no_request_and_no_connection_leaves_garbage() -> None:
    """The collector is off under load."""
    async with driving() as driver:
        await driver.links.open(range(CLIENTS))
        gc.collect()
        gc.disable()
        gc.set_debug(gc.DEBUG_SAVEALL)
        try:
            for _ in range(ROUNDS):
                await result_of(driver.request(0, b"a"))
                await result_of(driver.request(0, b"end"))
            driver.links.close()
            gc.collect()
            kinds = {f"{type(each).__module__}.{type(each).__name__}" for each in gc.garbage}
        finally:
            gc.set_debug(0)
            gc.garbage.clear()
            gc.enable()
    assert {kind for kind in kinds if kind.startswith("stepbench")} == set()


MOST_TRIES = 20


def test_what_a_listening_socket_accepts_is_stamped_before_anybody_fetches_it() -> None:
    """A server's thread that starts late is no part of a transfer; Linux begins to stamp a moment after the asking."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        ask_for_stamps(server)
        for _ in range(MOST_TRIES):
            begun_ns = time.time_ns()
            with socket.create_connection(server.getsockname()) as peer:
                peer.sendall(b"x")
                accepted, _ = server.accept()
                with accepted:
                    time.sleep(0.02)
                    late_ns = time.time_ns()
                    data, stamp_ns = receive_stamped(accepted, 10)
            if stamp_ns is not None:
                break
    assert data == b"x"
    assert stamp_ns is not None
    assert begun_ns <= stamp_ns < late_ns
