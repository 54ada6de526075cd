"""Requests to Cassandra that are sent without a future; the peer by hand, frame by frame."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.integration.wire.conftest import two_ends, until

from stepbench.wire.cql import CqlRequest, Opcode
from stepbench.wire.cql.connection import NOTHING, CqlConnection
from stepbench.wire.socket import OutgoingBytes

if TYPE_CHECKING:
    import socket
    from collections.abc import AsyncIterator

    from stepbench.wire.cql import CqlFrame

ASKED = CqlRequest(Opcode.EXECUTE, b"asked")
BIG = CqlRequest(Opcode.EXECUTE, bytes(50_000_000))

Said = tuple[int, "CqlFrame", str]
Ends = tuple[CqlConnection, "socket.socket"]


@pytest.fixture
async def ends() -> AsyncIterator[Ends]:
    """See `two_ends`."""
    with two_ends(CqlConnection) as ends:
        yield ends


def answer(stream: int) -> bytes:
    """A result without rows."""
    return b"\x84\x00" + stream.to_bytes(2) + b"\x08\x00\x00\x00\x04\x00\x00\x00\x01"


async def test_answers_overtake_each_other_and_find_their_own(ends: Ends) -> None:
    """In open loop many are in flight on one connection."""
    connection, peer = ends
    said: list[list[Said]] = [[], [], []]
    for own in said:
        connection.send(ASKED, OutgoingBytes(), lambda *each, own=own: own.append(each))
    peer.sendall(answer(2) + answer(0) + answer(1))
    for own in said:
        await until(own, 1)
    assert [frame.stream for own in said for _, frame, _ in own] == [0, 1, 2]


async def test_an_answer_that_came_before_its_request_is_none(ends: Ends) -> None:
    """Whoever is told sends the next request at once; the stream that it gets may be that of a frame in hand."""
    connection, peer = ends
    said: list[Said] = []
    second = OutgoingBytes()

    def told(t2_ns: int, frame: CqlFrame, error: str) -> None:
        said.append((t2_ns, frame, error))
        if len(said) == 1:
            connection.send(ASKED, second, told)

    connection.send(ASKED, OutgoingBytes(), told)
    peer.sendall(answer(0) + answer(1))
    await until(said, 2)
    assert [(frame.stream, error) for _, frame, error in said] == [(0, ""), (NOTHING.stream, "unasked-answer")]
    assert second.t1_ns > said[0][0]


async def test_an_answer_to_what_was_never_sent_ends_the_connection(ends: Ends) -> None:
    """Behind a full buffer the request waits still: the frame is another's."""
    connection, peer = ends
    said: list[Said] = []
    for request in (BIG, ASKED):
        connection.send(request, OutgoingBytes(), lambda *each: said.append(each))
    peer.sendall(answer(1))
    await until(said, 2)
    assert [(frame, error) for _, frame, error in said] == [(NOTHING, "unasked-answer")] * 2


async def test_what_waits_for_the_kernel_can_be_taken_back(ends: Ends) -> None:
    """Whoever gives up knows then that it has not happened."""
    connection, peer = ends
    said: list[Said] = []
    big, waiting = OutgoingBytes(), OutgoingBytes()
    for request, outgoing in ((BIG, big), (ASKED, waiting)):
        connection.send(request, outgoing, lambda *each: said.append(each))
    assert [connection.withdraw(each) for each in (big, waiting, waiting)] == [False, True, False]
    peer.sendall(answer(0))
    await until(said, 1)
    assert [(frame.stream, error) for _, frame, error in said] == [(0, "")]
    assert waiting.t1_ns == 0
