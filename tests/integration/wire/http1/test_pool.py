"""The pool against real sockets on loopback, on both event loops, plain and with TLS."""

from __future__ import annotations

import asyncio
import ssl
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from stepbench.clock import AnchoredClock
from stepbench.wire.http1.pool import HttpAddress, HttpPool, PoolLimits

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from stepbench.wire.http1.connection import HttpExchange
    from stepbench.wire.http1.pool import HttpDialled
    from stepbench_tools.local.stores.certificates import Certificates

QUICK = PoolLimits(connections=8, connect_s=2.0, answer_s=0.5)
LIMIT_S = 20


class Server:
    """A loopback server that does the same with each request; counts its connections."""

    def __init__(self, answer: Callable[[bytes], bytes | None], tls: ssl.SSLContext | None = None) -> None:
        self._answer = answer
        self._tls = tls
        self.connections = 0
        self.resets = asyncio.Semaphore(0)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while request := await reader.readline():
                answer = self._answer(request.strip())
                if answer is None:
                    break
                writer.write(answer)
                await writer.drain()
        except ConnectionError:
            self.resets.release()  # the client's right
        finally:
            writer.close()

    @asynccontextmanager
    async def pool(self, limits: PoolLimits = QUICK, tls: ssl.SSLContext | None = None) -> AsyncIterator[HttpPool]:
        """A pool that leads here."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._tls)
        port = server.sockets[0].getsockname()[1]
        pool = HttpPool(HttpAddress("127.0.0.1", port, tls=tls is not None), AnchoredClock(), limits, tls)
        try:
            async with asyncio.timeout(LIMIT_S):
                yield pool
        finally:
            await pool.close()
            server.close()
            await server.wait_closed()


def answer_to(body: bytes) -> bytes:
    """A good answer."""
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)


def body_of(exchange: HttpExchange) -> bytes | str:
    """The answer's body, or the error."""
    return exchange.answer.body if exchange.answer else exchange.error


async def test_each_request_gets_its_own_answer() -> None:
    """Two hundred requests over eight connections: one wrong pairing would swap two events' latencies."""
    server = Server(answer_to)
    async with server.pool() as pool:
        await pool.warm(8)  # else the first may have answered all before the others stand
        results = await asyncio.gather(*(pool.exchange(b"%d\r\n" % number) for number in range(200)))
    assert [body_of(result) for result in results] == [b"%d" % number for number in range(200)]
    assert all(result.t1_ns < result.t2_ns for result in results)
    assert server.connections == 8


async def test_a_connection_is_used_again() -> None:
    """A handshake a request would be measured as the store's latency."""
    server = Server(answer_to)
    async with server.pool() as pool:
        for _ in range(5):
            await pool.exchange(b"x\r\n")
    assert server.connections == 1


async def test_warm_connections_are_there_before_the_load() -> None:
    """And a second `open` adds none; more than the limit are never made."""
    server = Server(answer_to)
    async with server.pool() as pool:
        await pool.warm(3)
        await pool.warm(3)
        await pool.exchange(b"x\r\n")
        assert server.connections == 3
        await pool.warm(100)
        await pool.exchange(b"x\r\n")
    assert server.connections == 8


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (None, "connection-closed"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", "timeout"),
        (b"220 smtp ready\r\n\r\n", "garbage-answer"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n", "oversized-answer"),
        (b"", "timeout"),
    ],
    ids=["closes", "stops half way", "garbage", "oversized", "silent"],
)
async def test_a_bad_peer_is_an_unknown_outcome_in_bounded_time(answer: bytes | None, error: str) -> None:
    """Eight requests at once and one after: none hangs, none raises, and none gets another's remains."""
    server = Server(lambda _: answer)
    async with server.pool() as pool:
        at_once = await asyncio.gather(*(pool.exchange(b"x\r\n") for _ in range(8)))
        results = [*at_once, await pool.exchange(b"x\r\n")]
    assert {(result.answer, result.error, result.sent) for result in results} == {(None, error, True)}
    assert max(result.t2_ns - result.t1_ns for result in results) < 2_000_000_000


async def test_after_a_time_out_the_next_request_gets_its_own_answer() -> None:
    """The classic wrong pairing: the late answer to the first is read as the answer to the second."""
    answers = iter([b"", answer_to(b"second")])
    server = Server(lambda _: next(answers))
    async with server.pool() as pool:
        found = [body_of(await pool.exchange(b"x\r\n")) for _ in range(2)]
    assert found == ["timeout", b"second"]
    assert server.connections == 2


async def test_an_old_idle_connection_is_not_trusted() -> None:
    """The server may be closing it at this moment, and the write would end as UNKNOWN for nothing."""
    server = Server(answer_to)
    async with server.pool(QUICK._replace(idle_s=0.0)) as pool:
        await pool.exchange(b"x\r\n")
        await pool.exchange(b"x\r\n")
    assert server.connections == 2


async def test_closing_the_pool_ends_what_is_in_flight() -> None:
    """A cancelled trial must not wait for a silent store."""
    server = Server(lambda _: b"")
    async with server.pool(QUICK._replace(answer_s=60.0)) as pool:
        await pool.warm(1)
        pending = asyncio.create_task(pool.exchange(b"x\r\n"))
        await asyncio.sleep(0.01)
        await pool.close()
        await pool.close()
        found = await pending
    assert found.error == "connection-closed"


async def test_a_refused_connection_was_never_sent() -> None:
    """The write certainly did not happen: FAILED, not UNKNOWN."""
    async with Server(answer_to).pool() as pool:
        address = pool.address
    nobody = HttpPool(address, AnchoredClock(), QUICK)
    with pytest.raises(ConnectionRefusedError):
        await nobody.warm(2)
    result = await nobody.exchange(b"x\r\n")
    assert (result.error, result.sent) == ("connect: ConnectionRefusedError", False)


async def test_link_local_addresses_are_refused_after_the_name_is_resolved(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name in a plan may lead to the metadata service, whose answers hand out the role's credentials."""
    server = Server(answer_to)
    monkeypatch.setattr("stepbench.wire.connect.forbidden_name", lambda host, _addresses: f"{host} is forbidden")
    async with server.pool() as pool:
        found = await pool.exchange(b"x\r\n")
    assert found.error == "connect: ConnectionRefusedError"


def _server_tls(certificates: Certificates) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.certificate, certificates.key)
    return context


async def test_tls_is_spoken_and_kept_open(certificates: Certificates) -> None:
    """On AWS there is nothing else."""
    server = Server(answer_to, _server_tls(certificates))
    async with server.pool(tls=ssl.create_default_context(cafile=str(certificates.authority))) as pool:
        found = [body_of(await pool.exchange(b"%d\r\n" % number)) for number in range(2)]
    assert found == [b"0", b"1"]
    assert server.connections == 1


async def test_a_certificate_that_nobody_vouches_for_is_refused(certificates: Certificates) -> None:
    """The signature in each request is good for 15 minutes in anybody's hands."""
    server = Server(answer_to, _server_tls(certificates))
    async with server.pool(tls=ssl.create_default_context()) as pool:
        result = await pool.exchange(b"x\r\n")
    assert (result.error, result.sent) == ("connect: SSLCertVerificationError", False)


@pytest.mark.parametrize("encrypted", [False, True], ids=["plain", "TLS"])
async def test_a_connection_alone_serves_its_block_and_is_timed(
    certificates: Certificates,
    encrypted: bool,  # noqa: FBT001 -- by parameter
) -> None:
    """Without reuse its making is the result: each part has its time, and TLS none where there is none."""
    server = Server(answer_to, _server_tls(certificates) if encrypted else None)
    context = ssl.create_default_context(cafile=str(certificates.authority)) if encrypted else None
    blocks: list[tuple[HttpDialled, list[bytes | str]]] = []
    async with server.pool(tls=context) as pool:
        for _ in range(2):
            async with pool.single_use(await pool.find()) as dialled:
                said = [body_of(await dialled.connection.exchange(b"%d\r\n" % n)) for n in range(2)]
            assert not dialled.connection.usable
            blocks.append((dialled, said))
    for dialled, said in blocks:
        assert said == [b"0", b"1"]
        assert dialled.connect_ns > 0
        assert (dialled.tls_ns > 0) is encrypted
    assert server.connections == 2


async def test_a_connection_alone_leaves_no_port_behind() -> None:
    """One that ends in good order keeps its port for a minute, and 28,000 are all that may be opened to a server."""
    server = Server(answer_to)

    async def many() -> None:
        async with server.pool() as pool:
            for _ in range(3):
                async with pool.single_use(await pool.find()) as dialled:
                    await dialled.connection.exchange(b"x\r\n")
            for _ in range(3):
                await server.resets.acquire()

    await many()


async def test_a_name_is_looked_up_before_the_time_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name server is not under test."""
    server, found_ns = Server(answer_to), [0]

    async def alone() -> HttpDialled:
        async with server.pool() as pool:
            loop = asyncio.get_running_loop()
            look_up = loop.getaddrinfo

            async def slow(host: str, port: int, **options: Any) -> Any:  # noqa: ANN401 -- as the loop's own
                if host == "store.example.org":  # else a number, which uvloop asks about each time it connects
                    await asyncio.sleep(0.05)
                    found_ns[0] = time.time_ns()
                return await look_up("127.0.0.1", port, **options)

            monkeypatch.setattr(loop, "getaddrinfo", slow)
            pool.address = pool.address._replace(host="store.example.org")
            async with pool.single_use(await pool.find()) as dialled:
                return dialled

    dialled: HttpDialled = await alone()
    assert 0 < found_ns[0] <= dialled.began_ns + 5_000_000  # the two clocks are anchored apart


async def test_a_connection_alone_that_nobody_vouches_for_is_refused(certificates: Certificates) -> None:
    """An OSError, as every failure to connect."""
    server = Server(answer_to, _server_tls(certificates))

    async def one() -> None:
        async with server.pool(tls=ssl.create_default_context()) as pool, pool.single_use(await pool.find()):
            pytest.fail("it was trusted")

    with pytest.raises(ssl.SSLError):
        await one()


async def test_connections_alone_are_within_the_pools_limit() -> None:
    """Open-loop load would open as many as it has operations; who waits, waits before its time begins."""
    server, together, most = Server(answer_to), 0, 0

    async def many() -> None:
        nonlocal together, most

        async def one() -> None:
            nonlocal together, most
            async with pool.single_use(await pool.find()) as dialled:
                together += 1
                most = max(most, together)
                await dialled.connection.exchange(b"x\r\n")
                together -= 1

        async with server.pool() as pool:
            await asyncio.gather(*(one() for _ in range(40)))

    await many()
    assert 1 < most <= QUICK.connections  # fewer where answers come sooner than the next is dialled
    assert server.connections == 40
