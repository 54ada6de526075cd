"""Commands that are sent without a future: told in the turn of the answer, chained, taken back; the peer by hand."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from tests.integration.wire.conftest import two_ends, until

from stepbench.wire.resp.connection import RespConnection
from stepbench.wire.resp.requests import encode_command
from stepbench.wire.socket import OutgoingBytes

if TYPE_CHECKING:
    import socket
    from collections.abc import AsyncIterator

    from tests.integration.wire.conftest import Connect

    from stepbench.wire.resp import Reply
    from stepbench_tools.local.stores import LocalStore

pytestmark = pytest.mark.stores
LIMIT_S = 20
PING = encode_command(b"PING")
MORE_THAN_BUFFERS = bytes(50_000_000)

Said = tuple[int, "Reply", str]
Ends = tuple[RespConnection, "socket.socket"]


@pytest.fixture
async def ends() -> AsyncIterator[Ends]:
    """See `two_ends`."""
    with two_ends(RespConnection) as ends:
        yield ends


async def test_each_answer_sends_the_next_command(valkey_server: LocalStore, connect_to: Connect) -> None:
    """So it goes under load: no turn of the loop between an answer and the next command, and each its own answer."""
    connection = (await connect_to(valkey_server.endpoint)).connection
    await connection.call(b"DEL", b"chained")
    increment = encode_command(b"INCR", b"chained")
    said: list[Said] = []
    sent: list[OutgoingBytes] = []

    def send() -> None:
        sent.append(OutgoingBytes())
        connection.send(increment, sent[-1], told)

    def told(t2_ns: int, reply: Reply, error: str) -> None:
        said.append((t2_ns, reply, error))
        if len(said) < 500:
            send()

    send()
    await until(said, 500)
    assert [(reply, error) for _, reply, error in said] == [(number, "") for number in range(1, 501)]
    assert all(outgoing.t1_ns < t2_ns for outgoing, (t2_ns, _, _) in zip(sent, said, strict=True))
    assert all(before[0] < after.t1_ns for before, after in zip(said, sent[1:], strict=False))


async def test_an_answer_that_came_before_its_command_is_none(ends: Ends) -> None:
    """One too many, in hand when the next command was sent: taken for its answer, all later ones would be misread."""
    connection, peer = ends
    said: list[Said] = []
    second = OutgoingBytes()

    def told(t2_ns: int, reply: Reply, error: str) -> None:
        said.append((t2_ns, reply, error))
        if len(said) == 1:
            connection.send(PING, second, told)

    connection.send(PING, OutgoingBytes(), told)
    peer.sendall(b"+1\r\n+2\r\n")
    await until(said, 2)
    assert [(reply, error) for _, reply, error in said] == [("1", ""), (None, "unasked-answer")]
    assert second.t1_ns > said[0][0]
    assert not connection.is_open


async def test_what_waits_for_the_kernel_can_be_taken_back(ends: Ends) -> None:
    """Whoever gives up knows then that it has not happened; what is partly sent goes on, and keeps its answer."""
    connection, peer = ends
    said: list[Said] = []
    big, waiting, behind = OutgoingBytes(), OutgoingBytes(), OutgoingBytes()
    connection.send(MORE_THAN_BUFFERS, big, lambda *answer: said.append(answer))
    connection.send(b"taken back", waiting, lambda *answer: said.append(answer))
    connection.send(PING, behind, lambda *answer: said.append(answer))
    assert [connection.withdraw(each) for each in (big, waiting, waiting)] == [False, True, False]
    assert connection.in_flight == 2
    rest = await asyncio.to_thread(_read, peer, len(MORE_THAN_BUFFERS) + len(PING))
    assert rest.endswith(b"\0" + PING)
    peer.sendall(b"+1\r\n+2\r\n")
    await until(said, 2)
    assert [(reply, error) for _, reply, error in said] == [("1", ""), ("2", "")]
    assert (waiting.t1_ns, behind.t1_ns > big.t1_ns) == (0, True)


async def test_on_a_connection_that_has_ended_nothing_is_sent(ends: Ends) -> None:
    """It is said at once, and by the time of sending: there is none."""
    connection, _ = ends
    connection.close()
    said: list[Said] = []
    outgoing = OutgoingBytes()
    connection.send(PING, outgoing, lambda *answer: said.append(answer))
    assert [(reply, error) for _, reply, error in said] == [(None, "connection-closed")]
    assert outgoing.t1_ns == 0


def _read(peer: socket.socket, size: int) -> bytes:
    peer.settimeout(LIMIT_S)
    data = bytearray()
    while len(data) < size:
        data += peer.recv(1 << 20)
    return bytes(data[-100:])
