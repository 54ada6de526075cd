"""TLS to Valkey through a terminator of the test's own, and to Debian's redis-server where there is one."""

from __future__ import annotations

import asyncio
import os
import ssl
from typing import TYPE_CHECKING

import pytest
from tests.support.listening import listening_addresses

from stepbench.wire.connect import tls_context
from stepbench.wire.resp.connection import Login, LoginRefusedError
from stepbench.wire.resp.requests import encode_command
from stepbench.wire.socket import OutgoingBytes
from stepbench_tools.local.processes import terminate
from stepbench_tools.local.stores.certificates import Certificates
from stepbench_tools.local.stores.wheels import start_redis_with_tls

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.integration.wire.conftest import Connect

    from stepbench.wire.resp import Reply
    from stepbench_tools.local.stores import LocalStore

pytestmark = pytest.mark.stores
LIMIT_S = 30


@pytest.fixture
async def secured(valkey_server: LocalStore, certificates: Certificates) -> AsyncIterator[str]:
    """Address of a terminator in front of the module's server."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.certificate, certificates.key)
    host, _, port = valkey_server.endpoint.rpartition(":")
    carrying: set[asyncio.Task[None]] = set()

    async def copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(65_536):
                target.write(data)
                await target.drain()
        except OSError:
            pass  # either end's right
        target.close()

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream_reader, upstream_writer = await asyncio.open_connection(host, int(port))
        task = asyncio.current_task()
        if task is not None:
            carrying.add(task)
        await asyncio.gather(copy(reader, upstream_writer), copy(upstream_reader, writer))

    server = await asyncio.start_server(carry, "127.0.0.1", 0, ssl=context)
    yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    server.close()
    async with asyncio.timeout(LIMIT_S):
        await asyncio.gather(*carrying, return_exceptions=True)


async def test_over_tls_what_waits_is_not_taken_back(
    secured: str, certificates: Certificates, connect_to: Connect
) -> None:
    """It is encrypted in its place already: without it the peer could read nothing that comes behind."""
    connection = (await connect_to(secured, tls=tls_context(str(certificates.authority)))).connection
    said: list[Reply] = []
    done = asyncio.Event()

    def told(_t2_ns: int, reply: Reply, _error: str) -> None:
        said.append(reply)
        if len(said) == len(sent):
            done.set()

    sent = [OutgoingBytes() for _ in range(3)]
    commands = [(b"SET", b"big", bytes(20_000_000)), (b"ECHO", b"1"), (b"ECHO", b"2")]
    for command, outgoing in zip(commands, sent, strict=True):
        connection.send(encode_command(*command), outgoing, told)
    assert [outgoing.t1_ns > 0 for outgoing in sent] == [True, False, False]
    assert not connection.withdraw(sent[1])
    async with asyncio.timeout(LIMIT_S):
        await done.wait()
    assert said == ["OK", b"1", b"2"]


async def test_a_pipeline_over_tls(secured: str, certificates: Certificates, connect_to: Connect) -> None:
    """Records of TLS end where no reply does."""
    connected = await connect_to(secured, tls=tls_context(str(certificates.authority)))
    connection = connected.connection
    value = os.urandom(3_000_000)
    async with asyncio.timeout(LIMIT_S):
        echoed = await asyncio.gather(*connection.pipeline([(b"ECHO", b"%d" % each) for each in range(10_000)]))
        big = [await connection.call(b"SET", b"k", value), await connection.call(b"GET", b"k")]
    assert [each.reply for each in echoed] == [b"%d" % each for each in range(10_000)]
    assert [big[0].reply, big[1].reply == value] == ["OK", True]
    assert all(part > 0 for part in connected.times)
    connection.close()


async def test_another_authority_is_not_trusted(secured: str, connect_to: Connect) -> None:
    """Whoever answers in the store's place must not be measured, nor told the password."""
    with pytest.raises(ssl.SSLCertVerificationError, match="local issuer"):
        await connect_to(secured, tls=tls_context())


async def test_another_name_is_not_trusted(secured: str, certificates: Certificates, connect_to: Connect) -> None:
    """Behind a tunnel the certificate's name is not the address."""
    with pytest.raises(ssl.SSLCertVerificationError, match=r"stepbench\.example"):
        await connect_to(secured, tls=tls_context(str(certificates.authority)), server_name="stepbench.example")


async def test_a_server_without_tls_is_an_oserror(
    valkey_server: LocalStore, certificates: Certificates, connect_to: Connect
) -> None:
    """It waits for a line's end in our handshake, or hangs up."""
    with pytest.raises(OSError, match=r"handshake|reset|WRONG_VERSION|^$"):
        await connect_to(valkey_server.endpoint, tls=tls_context(str(certificates.authority)), connect_s=0.5)


async def test_speaking_plainly_to_tls_is_an_oserror(secured: str, connect_to: Connect) -> None:
    """The alert is no reply."""
    with pytest.raises(ConnectionError, match=r"garbage-answer|connection-"):
        await connect_to(secured)


async def test_what_is_in_flight_at_tls_end_is_unknown(
    secured: str, certificates: Certificates, connect_to: Connect
) -> None:
    """A goodbye is an end like any other; the answer before it counts."""
    connection = (await connect_to(secured, tls=tls_context(str(certificates.authority)))).connection
    async with asyncio.timeout(LIMIT_S):
        said, after = await asyncio.gather(connection.call(b"QUIT"), connection.call(b"PING"))
    assert (said.reply, after.reply, after.error in ("connection-closed", "connection-reset")) == ("OK", None, True)


async def test_debians_redis_speaks_tls_only(tmp_path: Path, certificates: Certificates, connect_to: Connect) -> None:
    """The one real server with TLS that needs no building."""
    store = start_redis_with_tls(tmp_path, certificates, {"requirepass": "secret"})
    context = tls_context(str(certificates.authority))
    try:
        assert listening_addresses(store.pids) == {store.endpoint}
        connected = await connect_to(store.endpoint, tls=context, login=Login(password="secret"))  # noqa: S106
        async with asyncio.timeout(LIMIT_S):
            answers = await asyncio.gather(*connected.connection.pipeline([(b"INCR", b"n")] * 5_000))
        with pytest.raises(LoginRefusedError):
            await connect_to(store.endpoint, tls=context)
        connected.connection.close()
    finally:
        terminate(store.pids)
    assert [each.reply for each in answers] == list(range(1, 5_001))
    assert (connected.greeting["server"], store.version.endswith("(PATH, TLS)")) == ("redis", True)
