"""One gRPC call over a connection: with one answer, or with a stream of them. Not a task, not a future, no garbage."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Protocol

from stepbench.wire.answers import NEVER_NS
from stepbench.wire.http2.grpc_answer import (
    GrpcAnswer,
    GrpcStatus,
    MalformedMessageError,
    MessageReader,
    status_from_code,
    status_from_end,
    status_from_http,
)
from stepbench.wire.socket import OutgoingBytes

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepbench.wire.http2 import Head
    from stepbench.wire.http2.streams import Http2Stream, StreamEnd

_NOT_SENT = OutgoingBytes()
_OK = GrpcStatus.OK


class CallConnection(Protocol):
    """The part of its connection that a call needs."""

    now_ns: int
    """When the bytes arrived that are being taken, or the moment of giving up."""

    def cancel(self, stream: Http2Stream) -> None:
        """Await it no longer."""
        ...


class GrpcCall(ABC):
    """
    One call, which holds to the order in which fields, data and trailers may come.

    Args:
        connection: the one that it is made over.
        done: called once, with what came of it; `data` is empty.
        expires_ns: when to give up; `NEVER_NS` for a stream of answers.
    """

    __slots__ = ("_connection", "_done", "_has_head", "expires_ns", "outgoing", "received_bytes", "stream_id")

    def __init__(self, connection: CallConnection, done: Callable[[GrpcAnswer], None], expires_ns: int) -> None:
        self._connection: CallConnection | None = connection
        self._done: Callable[[GrpcAnswer], None] | None = done
        self._has_head = False
        self.expires_ns = expires_ns
        self.stream_id = self.received_bytes = 0
        self.outgoing = _NOT_SENT

    def take_head(self, head: Head, *, is_last: bool) -> None:
        """See `Http2Stream`."""
        if is_last:
            if head.grpc_status is None:
                self._conclude(*_foreign(head), is_answered=False)
            else:
                self._conclude(status_from_code(head.grpc_status), head.message, is_answered=True)
        elif not self._has_head and head.http_status == "200" and head.content_type.startswith("application/grpc"):
            self._has_head = True
        elif self._has_head or not head.http_status.startswith("1"):  # 1xx: the answer is still to come
            self.give_up(*_foreign(head))

    @abstractmethod
    def take_data(self, data: bytes, *, is_last: bool) -> None:
        """See `Http2Stream`."""

    def take_end(self, ended: StreamEnd) -> None:
        """See `Http2Stream`."""
        self._finish(status_from_end(ended), ended.reason, is_answered=False, is_untouched=ended.untouched)

    def give_up(self, status: GrpcStatus, message: str) -> None:
        """Await it no longer; nothing happens where it has ended."""
        connection = self._connection
        if connection is not None:
            connection.cancel(self)
            self._finish(status, message, is_answered=False, is_untouched=self.outgoing is _NOT_SENT)

    def _must_have_head(self) -> None:
        if not self._has_head:
            message = "an answer without a head"
            raise MalformedMessageError(message)

    def _conclude(self, status: GrpcStatus, message: str, *, is_answered: bool) -> None:
        """Finish at the stream's end; `is_answered` as `GrpcAnswer`'s."""
        self._finish(status, message, is_answered=is_answered)

    def _finish(
        self,
        status: GrpcStatus,
        message: str,
        data: bytes = b"",
        *,
        is_answered: bool = True,
        is_untouched: bool = False,
    ) -> None:
        connection, done = self._connection, self._done
        self._connection = self._done = None
        if connection is not None and done is not None:
            t2_ns = connection.now_ns
            t1_ns = self.outgoing.t1_ns or t2_ns
            done(GrpcAnswer(t1_ns, t2_ns, status, message, data, is_answered, is_untouched))


class UnaryCall(GrpcCall):
    """One question, one answer."""

    __slots__ = ("_message", "_reader")

    def __init__(self, connection: CallConnection, done: Callable[[GrpcAnswer], None], expires_ns: int) -> None:
        super().__init__(connection, done, expires_ns)
        self._message: bytes | None = None
        self._reader: MessageReader | None = None

    def take_head(self, head: Head, *, is_last: bool) -> None:
        """See `Http2Stream`."""
        if is_last and head.grpc_status == 0 and self._message is not None and self._reader is None:
            self._finish(_OK, "", self._message)  # as nearly always
        else:
            super().take_head(head, is_last=is_last)

    def take_data(self, data: bytes, *, is_last: bool) -> None:
        """See `Http2Stream`."""
        try:
            self._keep(data)
        except MalformedMessageError as error:
            self.give_up(GrpcStatus.INTERNAL, str(error))
            return
        if is_last:
            self._conclude(GrpcStatus.INTERNAL, "an answer without a status", is_answered=False)

    def _keep(self, data: bytes) -> None:
        self._must_have_head()
        if self._reader is None:
            if self._message is None and data[:1] == b"\0" and int.from_bytes(data[1:5], "big") == len(data) - 5:
                self._message = data[5:]  # all of it in one frame, as nearly always
                return
            self._reader = MessageReader()
        messages = self._reader.feed(data)
        if len(messages) + (self._message is not None) > 1:
            message = "more than one answer"
            raise MalformedMessageError(message)
        if messages:
            self._message = messages[0]

    def _conclude(self, status: GrpcStatus, message: str, *, is_answered: bool) -> None:
        if status is not _OK:
            self._finish(status, message, is_answered=is_answered)
        elif self._message is not None and (self._reader is None or self._reader.is_at_end):
            self._finish(_OK, "", self._message)
        else:
            self._finish(GrpcStatus.INTERNAL, "an answer that is cut off", is_answered=False)


class Subscription(GrpcCall):
    """One question, many answers, each given to `arrived` with the moment when its last bytes were in hand."""

    __slots__ = ("_arrived", "_reader")

    def __init__(
        self, connection: CallConnection, arrived: Callable[[int, bytes], None], done: Callable[[GrpcAnswer], None]
    ) -> None:
        super().__init__(connection, done, NEVER_NS)
        self._arrived = arrived
        self._reader = MessageReader()

    def take_data(self, data: bytes, *, is_last: bool) -> None:
        """See `Http2Stream`."""
        try:
            self._must_have_head()
            messages = self._reader.feed(data)
        except MalformedMessageError as error:
            self.give_up(GrpcStatus.INTERNAL, str(error))
            return
        for message in messages:
            if self._connection is None:  # whoever got the one before wants no more
                return
            self._arrived(self._connection.now_ns, message)
        if is_last:
            self._conclude(GrpcStatus.INTERNAL, "answers without a status", is_answered=False)


def _foreign(head: Head) -> tuple[GrpcStatus, str]:
    """Judge an answer that no gRPC server gives."""
    if head.http_status in {"", "200"}:
        return GrpcStatus.INTERNAL, "an answer without a status"
    return status_from_http(head.http_status), f"HTTP status {head.http_status}"
