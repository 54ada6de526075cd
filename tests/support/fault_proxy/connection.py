"""A connection through the proxy: the client's end, the server's end, and what goes wrong between them."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from typing import TYPE_CHECKING, Literal

from tests.support.fault_proxy.faults import Cut, Delay, Drop, Duplicate, Fault, Limit, Replace, Throttle
from tests.support.fault_proxy.framing import Framing, Piece, expects_continue

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.fault_proxy.faults import Tally

_AT_ONCE = 65_536
_PORTIONS_PER_S = 20
_NO_LINGER = struct.pack("ii", 1, 0)  # closing sends a reset
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class _CutError(Exception):
    """The connection was reset by a fault; nothing more is to be done."""


class End:
    """One of the two sockets."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def receive(self) -> bytes:
        """Return what came; b"" at the end, an orderly one or not."""
        try:
            return await self._reader.read(_AT_ONCE)
        except ConnectionError:
            return b""

    async def send(self, data: bytes, bytes_per_s: float | None = None) -> None:
        """Hand to the kernel, at a pace. What a peer that is gone would have got is lost."""
        portion = len(data) if bytes_per_s is None else max(1, int(bytes_per_s / _PORTIONS_PER_S))
        for at in range(0, len(data), portion):
            part = data[at : at + portion]
            with contextlib.suppress(ConnectionError):
                self._writer.write(part)
                await self._writer.drain()
            if bytes_per_s is not None:
                await asyncio.sleep(len(part) / bytes_per_s)

    def finish(self) -> None:
        """Send FIN; the other direction stays open, so that unread bytes do not turn it into a reset."""
        with contextlib.suppress(OSError):
            self._writer.write_eof()

    def reset(self) -> None:
        """Send RST."""
        self._writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        self._writer.transport.abort()

    def release(self) -> None:
        """Begin to close after what is buffered."""
        self._writer.close()

    async def close(self) -> None:
        """Close after what is buffered."""
        self.release()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()


class ProxiedConnection:
    """Passes pieces on, or does not. `choose` gives each request its fault."""

    def __init__(
        self, client: End, server: End, framing: Framing, choose: Callable[[bytes], Fault | None], tally: Tally
    ) -> None:
        self._client = client
        self._server = server
        self._framing = framing
        self._choose = choose
        self._tally = tally
        self._on_request: dict[int, Fault] = {}
        self._on_answer: dict[int, Fault] = {}
        self._copy = b""
        self._left: dict[int, int] = {}
        self._broken_off: set[int] = set()
        self._limit: float | None = None
        self._swallows_requests = self._swallows_answers = False
        self.flowing = asyncio.Event()
        self.flowing.set()

    async def run(self) -> None:
        """Pass on until either side ends, or a fault does it."""
        directions = [asyncio.create_task(each) for each in (self._upward(), self._downward())]
        try:
            await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for direction in directions:
                direction.cancel()
            try:
                results = await asyncio.gather(*directions, return_exceptions=True)
            finally:  # the proxy may be stopped just now, which ends that waiting
                self._server.release()
                self._client.release()
            await self._server.close()
            await self._client.close()
        for result in results:
            if isinstance(result, Exception) and not isinstance(result, _CutError):
                raise result

    def black_hole(self) -> None:
        """Let nothing through from now on, either way; the connection stays open."""
        self._swallows_requests = self._swallows_answers = True

    def cut(self, how: Literal["rst", "fin"]) -> None:
        """End the connection, as the client sees it, now."""
        self.black_hole()
        if how == "rst":
            self._client.reset()
        else:
            self._client.finish()

    async def _upward(self) -> None:
        while data := await self._client.receive():
            for piece in self._framing.requests(data):
                await self.flowing.wait()
                if piece.begins:
                    self._begin(piece)
                if not self._swallows_requests:
                    await self._take_request(piece)
                if piece.ends:
                    self._on_request.pop(piece.stream, None)

    async def _downward(self) -> None:
        while data := await self._server.receive():
            for piece in self._framing.answers(data):
                await self.flowing.wait()
                if not self._swallows_answers:
                    await self._take_answer(piece)
        if self._swallows_answers:
            await asyncio.Event().wait()  # the server has gone, and the client is not to know

    def _begin(self, first: Piece) -> None:
        self._tally.count("requests")
        if self._swallows_requests:
            return
        fault = self._choose(first.data)
        self._limit = fault.bytes_per_s if isinstance(fault, Limit) else None
        if fault is None:
            return
        if not isinstance(fault, Replace):
            self._tally.fault(fault.name)
        self._on_request[first.stream] = self._on_answer[first.stream] = fault
        match fault:
            case Drop(part="request"):
                self.black_hole()
            case Drop(part="answer"):
                self._swallows_answers = True
            case Cut(after_bytes=after_bytes):
                self._left[first.stream] = after_bytes
            case Duplicate():
                self._copy = b""
            case Throttle():
                del self._on_answer[first.stream]  # it is the proxy's own

    async def _take_request(self, piece: Piece) -> None:
        match self._on_request.get(piece.stream):
            case Throttle(answer=answer):
                await self._go_on(piece)
                if piece.ends:
                    self._tally.count("answered")
                    await self._client.send(answer)
            case Cut(at="before-request", how=how):
                await self._end(how)
            case Cut(at="in-request", how=how):
                await self._server.send(self._allowed(piece))
                if piece.ends or not self._left[piece.stream]:
                    await self._end(how)
            case Duplicate():
                await self._go_on(piece)
                self._copy += piece.data
                await self._forward(piece)
            case Replace(part="request") as fault:
                await self._forward(self._replaced(piece, fault))
            case Delay(request_s=request_s):
                if piece.begins:
                    await asyncio.sleep(request_s)
                await self._forward(piece)
            case _:
                await self._forward(piece)

    async def _take_answer(self, piece: Piece) -> None:
        match self._on_answer.get(piece.stream):
            case Cut(at="before-answer", how=how) if piece.begins:
                await self._end(how)
                return
            case Cut(at="in-answer", how=how) if piece.begins or piece.stream in self._broken_off:
                self._broken_off.add(piece.stream)
                await self._client.send(self._allowed(piece))
                if piece.ends or not self._left[piece.stream]:
                    await self._end(how)
                return
            case Duplicate():
                if piece.ends:
                    await self._send_again()
                return
            case Delay(answer_s=answer_s) if piece.begins:
                await asyncio.sleep(answer_s)
            case Replace(part="answer") as fault:
                piece = self._replaced(piece, fault)
        await self._answer(piece)

    async def _go_on(self, piece: Piece) -> None:
        """Have a client send its body that waits for the server to say so, whose answer is not passed on."""
        if piece.begins and expects_continue(piece.data):
            await self._client.send(_CONTINUE)

    async def _forward(self, piece: Piece) -> None:
        if piece.begins:
            self._framing.forwarded(piece)
        if piece.ends:
            self._tally.count("forwarded")
        await self._server.send(piece.data, self._limit)

    async def _answer(self, piece: Piece) -> None:
        if piece.ends:
            self._on_answer.pop(piece.stream, None)
            self._tally.count("answered")
        await self._client.send(piece.data, self._limit)

    def _replaced(self, piece: Piece, fault: Replace) -> Piece:
        if fault.old not in piece.data:
            return piece
        self._tally.fault(fault.name)
        return piece._replace(data=piece.data.replace(fault.old, fault.new))

    async def _send_again(self) -> None:
        del self._on_answer[0]
        await self._forward(Piece(self._copy, begins=True, ends=True))

    def _allowed(self, piece: Piece) -> bytes:
        part = piece.data[: self._left[piece.stream]]
        self._left[piece.stream] -= len(part)
        return part

    async def _end(self, how: Literal["rst", "fin"]) -> None:
        self.cut(how)
        if how == "rst":
            raise _CutError
        await self._server.close()
