"""gRPC to a real etcd, over good networks and bad ones, plain and with TLS; and to servers that misbehave."""

from __future__ import annotations

import asyncio
import gc
import os
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.fault_proxy import Cut, Drop, Limit, Rule, fault_proxy, http2

from stepbench.clock import AnchoredClock
from stepbench.drivers.etcd import etcd_pb2 as pb
from stepbench.drivers.etcd.cluster import PUT, RANGE, STATUS, WATCH
from stepbench.load.process import gc_paused
from stepbench.wire.connect import ServerAddress
from stepbench.wire.http2 import END_HEADERS, END_STREAM, GOAWAY, HEADERS, SETTINGS, encode_frame
from stepbench.wire.http2.grpc_answer import GrpcAnswer, GrpcStatus
from stepbench.wire.http2.grpc_connection import (
    GrpcConnected,
    GrpcConnection,
    GrpcLimits,
    connect_grpc,
    http2_tls_context,
)
from stepbench_tools.local.processes import terminate
from stepbench_tools.local.stores.wheels import start_etcd

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
    from pathlib import Path

    from tests.support.fault_proxy import FaultProxy

    from stepbench_tools.local.stores import LocalStore
    from stepbench_tools.local.stores.certificates import Certificates

pytestmark = pytest.mark.stores
LIMIT_S = 30
QUICK = GrpcLimits(answer_s=0.5)
SETTLED = encode_frame(SETTINGS, 0, 0, b"")
UNCOLLECTED = 20
Open = Any
"""The fixture's function: an address to an open connection that ends with the test."""


@pytest.fixture
async def connected() -> AsyncIterator[Open]:
    """See `Open`."""
    made: list[GrpcConnection] = []

    async def open_one(address: str, **endpoint: Any) -> GrpcConnection:  # noqa: ANN401 -- see `_dial`
        made.append((await _dial(address, **endpoint)).connection)
        return made[-1]

    yield open_one
    for connection in made:
        connection.close()


@pytest.fixture
def proxy(etcd_server: LocalStore) -> Iterator[FaultProxy]:
    """In front of the session's etcd."""
    with fault_proxy(etcd_server.endpoint, http2) as proxy:
        yield proxy


async def _dial(address: str, **endpoint: Any) -> GrpcConnected:  # noqa: ANN401 -- of `ServerAddress` and `connect_grpc`
    host, _, port = address.removeprefix("https://").rpartition(":")
    server = ServerAddress(host, int(port), endpoint.pop("tls", None), endpoint.pop("server_name", ""))
    return await connect_grpc(server, f"{host}:{port}", AnchoredClock(), **endpoint)


def _put(key: bytes, value: bytes) -> bytes:
    return pb.PutRequest(key=key, value=value).SerializeToString()


def _get(key: bytes, end: bytes = b"") -> bytes:
    return pb.RangeRequest(key=key, range_end=end).SerializeToString()


def _values(answer: GrpcAnswer) -> list[bytes]:
    assert answer.status is GrpcStatus.OK, answer
    return [each.value for each in pb.RangeResponse.FromString(answer.data).kvs]


def _run() -> bytes:
    """A prefix of the test's own."""
    return os.urandom(6).hex().encode()


async def test_calls_at_once_get_their_own_answers(etcd_server: LocalStore, connected: Open) -> None:
    """Hundreds of streams in one connection, answered in no order."""
    connection, run = await connected(etcd_server.endpoint), _run()
    async with asyncio.timeout(LIMIT_S):
        puts = await asyncio.gather(
            *(connection.call_and_wait(PUT, _put(b"%b%d" % (run, n), b"%d" % n)) for n in range(500))
        )
        gets = await asyncio.gather(*(connection.call_and_wait(RANGE, _get(b"%b%d" % (run, n))) for n in range(500)))
    assert {each.status for each in puts} == {GrpcStatus.OK}
    assert all(0 < each.t1_ns < each.t2_ns for each in puts)
    assert [_values(each) for each in gets] == [[b"%d" % n] for n in range(500)]


async def test_messages_larger_than_all_windows_come_through(etcd_server: LocalStore, connected: Open) -> None:
    """A put of 1.4 MB waits for room again and again; an answer of 28 MB needs us to give some."""
    connection, run = await connected(etcd_server.endpoint), _run()
    values = [os.urandom(1_400_000) for _ in range(20)]
    async with asyncio.timeout(LIMIT_S):
        for number, value in enumerate(values):
            assert (await connection.call_and_wait(PUT, _put(b"%b%02d" % (run, number), value))).status is GrpcStatus.OK
        small = connection.call_and_wait(STATUS, b"")
        got, _ = await asyncio.gather(connection.call_and_wait(RANGE, _get(run, run + b"~")), small)
    assert _values(got) == values


async def test_refusals_are_the_servers_word(etcd_server: LocalStore, connected: Open) -> None:
    """With its code and its message, percent signs decoded."""
    connection = await connected(etcd_server.endpoint)
    async with asyncio.timeout(LIMIT_S):
        empty, unknown = (
            await connection.call_and_wait(PUT, _put(b"", b"v")),
            await connection.call_and_wait("/no.Such/Method", b""),
        )
    assert (empty.status, empty.message) == (GrpcStatus.INVALID_ARGUMENT, "etcdserver: key is not provided")
    assert (unknown.status, unknown.is_answered) == (GrpcStatus.UNIMPLEMENTED, True)


@pytest.mark.parametrize("how", ["rst", "fin"])
@pytest.mark.parametrize("at", ["before-request", "in-request", "before-answer", "in-answer"])
async def test_a_cut_leaves_all_calls_without_an_answer(at: str, how: str, proxy: FaultProxy, connected: Open) -> None:
    """Wherever it happens; what had left is not untouched, whatever the server got of it."""
    connection = await connected(proxy.endpoint)
    proxy.follow(Rule(Cut(at, how, after_bytes=20)))  # type: ignore[arg-type]
    async with asyncio.timeout(LIMIT_S):
        answers = await asyncio.gather(*(connection.call_and_wait(PUT, _put(_run(), b"v")) for _ in range(5)))
        late = await connection.call_and_wait(PUT, _put(_run(), b"v"))
    assert {(each.status, each.is_answered) for each in answers} == {(GrpcStatus.UNAVAILABLE, False)}
    assert not answers[0].is_untouched
    assert (late.status, late.is_untouched, connection.is_open) == (GrpcStatus.UNAVAILABLE, True, False)


async def test_counts_agree_with_answers_whatever_is_cut(proxy: FaultProxy, connected: Open) -> None:
    """All that was acknowledged is stored, and nothing that was said to be untouched."""
    cuts = [Rule(Cut("before-request"), share=0.06, seed=1), Rule(Cut("before-answer"), share=0.06, seed=2)]
    run, answers = _run(), dict[bytes, GrpcAnswer]()
    connection = await connected(proxy.endpoint)
    proxy.follow(*cuts)
    async with asyncio.timeout(LIMIT_S):
        for turn in range(40):
            if not connection.is_open:
                proxy.follow()
                connection = await connected(proxy.endpoint)
                proxy.follow(*cuts)
            keys = [b"%b%d-%d" % (run, turn, each) for each in range(8)]
            done = await asyncio.gather(*(connection.call_and_wait(PUT, _put(key, key)) for key in keys))
            answers.update(zip(keys, done, strict=True))
        proxy.follow()
        stored = set(_values(await (await connected(proxy.endpoint)).call_and_wait(RANGE, _get(run, run + b"~"))))
    acknowledged = {key for key, each in answers.items() if each.status is GrpcStatus.OK}
    assert acknowledged <= stored <= {key for key, each in answers.items() if not each.is_untouched}
    assert 0 < len(acknowledged) < len(answers)


async def test_silence_ends_in_a_time_out(proxy: FaultProxy, connected: Open) -> None:
    """A connection that carries nothing does not say so; whether the server got the put is open."""
    connection = await connected(proxy.endpoint, limits=QUICK)
    proxy.follow(Rule(Drop("answer"), times=1))
    async with asyncio.timeout(LIMIT_S):
        silent = await connection.call_and_wait(PUT, _put(_run(), b"v"))
    assert (silent.status, silent.is_answered, silent.is_untouched) == (GrpcStatus.DEADLINE_EXCEEDED, False, False)
    assert silent.t2_ns - silent.t1_ns > 0.4e9


async def test_answers_that_trickle_in_are_put_together(proxy: FaultProxy, connected: Open) -> None:
    """Small segments split frames anywhere."""
    connection, run, value = await connected(proxy.endpoint), _run(), os.urandom(3_000)
    async with asyncio.timeout(LIMIT_S):
        await connection.call_and_wait(PUT, _put(run, value))
        proxy.follow(Rule(Limit(bytes_per_s=8_000)))
        got = await asyncio.gather(*(connection.call_and_wait(RANGE, _get(run)) for _ in range(2)))
    assert [_values(each) for each in got] == [[value]] * 2


async def test_an_abandoned_call_is_answered_once_and_the_next_finds_its_own(
    etcd_server: LocalStore, connected: Open
) -> None:
    """Its answer may be on its way."""
    connection, run, answers = await connected(etcd_server.endpoint), _run(), list[GrpcAnswer]()
    for _ in range(50):
        call = connection.call(PUT, _put(run, b"v"), answers.append)
        call.give_up(GrpcStatus.CANCELLED, "enough")
    async with asyncio.timeout(LIMIT_S):
        await connection.call_and_wait(PUT, _put(run + b"+", b"next"))
        got = await connection.call_and_wait(RANGE, _get(run + b"+"))
    assert [each.status for each in answers] == [GrpcStatus.CANCELLED] * 50
    assert _values(got) == [b"next"]


async def test_a_call_leaves_no_garbage(etcd_server: LocalStore, connected: Open) -> None:
    """The collector is off under load: what only it could free would fill the memory of a long trial."""
    connection, run = await connected(etcd_server.endpoint), _run()
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(LIMIT_S):
        with gc_paused():
            for _ in range(200):
                answered: asyncio.Future[GrpcAnswer] = loop.create_future()
                connection.call(PUT, _put(run, b"v"), answered.set_result)
                await answered
            found = gc.collect()
    assert found < UNCOLLECTED


# --- TLS -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory, certificates: Certificates) -> Iterator[tuple[str, Path]]:
    """An etcd with TLS, and the authority to trust."""
    store = start_etcd(tmp_path_factory.mktemp("etcd"), certificates)
    yield store.endpoint, certificates.authority
    terminate(store.pids)


async def test_puts_and_a_watch_over_tls(
    secured: tuple[str, Path], connected: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records of TLS end where no frame does."""
    endpoint, authority = secured
    monkeypatch.setenv("SSL_CERT_FILE", str(authority))
    connection, run = await connected(endpoint, tls=http2_tls_context()), _run()
    create = pb.WatchCreateRequest(key=run, range_end=run + b"~")
    arrived: asyncio.Queue[tuple[int, bytes]] = asyncio.Queue()
    connection.subscribe(
        WATCH,
        pb.WatchRequest(create_request=create).SerializeToString(),
        lambda *stamped: arrived.put_nowait(stamped),
        lambda _answer: None,
    )
    values, events = [os.urandom(200_000) for _ in range(4)], list[bytes]()
    async with asyncio.timeout(LIMIT_S):
        await arrived.get()
        await asyncio.gather(
            *(connection.call_and_wait(PUT, _put(b"%b%d" % (run, n), v)) for n, v in enumerate(values))
        )
        while len(events) < len(values):
            _, raw = await arrived.get()
            events += [event.kv.value for event in pb.WatchResponse.FromString(raw).events]
    assert sorted(events) == sorted(values)


async def test_a_server_that_nobody_vouches_for_is_refused(secured: tuple[str, Path]) -> None:
    """Before anything is asked."""
    with pytest.raises(OSError, match="certificate verify failed"):
        await _dial(secured[0], tls=http2_tls_context())


# --- servers that misbehave ----------------------------------------------------------------------------------------


@asynccontextmanager
async def _serving(
    speak: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
) -> AsyncIterator[str]:
    """Address of a server that speaks so to each who connects."""
    ended: list[asyncio.Event] = []

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        over = asyncio.Event()
        ended.append(over)
        try:
            await speak(reader, writer)
        except OSError:
            pass  # the client has gone
        finally:
            writer.close()
            over.set()

    server = await asyncio.start_server(carry, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        async with asyncio.timeout(LIMIT_S):
            await asyncio.gather(*(over.wait() for over in ended))


async def test_a_server_of_another_protocol_is_an_oserror(connected: Open) -> None:
    """A web server says what it is, and hangs up."""

    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")

    async with _serving(speak) as address, asyncio.timeout(LIMIT_S):
        with pytest.raises(ConnectionError):
            await connected(address)


async def test_a_server_that_says_nothing_is_given_up(connected: Open) -> None:
    """Without settings nothing may be asked; the port may belong to something that waits, too."""

    async def speak(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        while await reader.read(1_000):
            pass

    async with _serving(speak) as address, asyncio.timeout(LIMIT_S):
        with pytest.raises(TimeoutError):
            await connected(address, connect_s=0.2)


async def test_a_goodbye_is_heeded_by_those_to_come(connected: Open) -> None:
    """A server that restarts answers what it has begun; everything else has not happened."""
    refused = b"\x88\x00\x0bgrpc-status\x019"  # :status 200, and FAILED_PRECONDITION

    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(SETTLED)
        await reader.readuntil(b"second")
        writer.write(encode_frame(GOAWAY, 0, 0, (1).to_bytes(4, "big") + bytes(4)))
        writer.write(encode_frame(HEADERS, END_HEADERS | END_STREAM, 1, refused))
        await reader.read()

    async with _serving(speak) as address, asyncio.timeout(LIMIT_S):
        connection = await connected(address)
        first, second = await asyncio.gather(
            connection.call_and_wait(PUT, b"first"), connection.call_and_wait(PUT, b"second")
        )
        third = await connection.call_and_wait(PUT, b"third")
    assert (first.status, first.is_answered) == (GrpcStatus.FAILED_PRECONDITION, True)
    assert (second.is_untouched, third.is_untouched, connection.is_open) == (True, True, False)


async def test_garbage_after_an_answer_ends_the_connection_and_spoils_no_answer(connected: Open) -> None:
    """What came before it in the same segment counts; what was asked besides has no answer."""
    answer = encode_frame(HEADERS, END_HEADERS | END_STREAM, 1, b"\x88\x00\x0bgrpc-status\x019")

    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(SETTLED)
        await reader.readuntil(b"second")
        writer.write(answer + b"\xff" * 50)
        await reader.read()

    async with _serving(speak) as address, asyncio.timeout(LIMIT_S):
        connection = await connected(address)
        first, second = await asyncio.gather(
            connection.call_and_wait(PUT, b"first"), connection.call_and_wait(PUT, b"second")
        )
    assert (first.status, second.status) == (GrpcStatus.FAILED_PRECONDITION, GrpcStatus.UNAVAILABLE)
    assert (second.is_untouched, connection.is_open) == (False, False)


async def test_a_server_that_answers_no_ping_is_given_up(connected: Open) -> None:
    """A host that vanished sends no reset, and a subscription has no time-out."""

    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(SETTLED)
        while await reader.read(1_000):
            pass

    limits = GrpcLimits(ping_every_s=0.05, pong_within_s=0.05)
    async with _serving(speak) as address, asyncio.timeout(LIMIT_S):
        connection = await connected(address, limits=limits)
        done: asyncio.Future[GrpcAnswer] = asyncio.get_running_loop().create_future()
        connection.subscribe(WATCH, b"", lambda *_: None, done.set_result)
        answer = await done
    assert (answer.status, answer.message) == (GrpcStatus.UNAVAILABLE, "no answer to a ping")
