"""What an HTTP/2 session and its streams tell each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from stepbench.wire.byte_socket import Shipment
    from stepbench.wire.http2_fields import Head
    from stepbench.wire.http2_frames import ErrorCode


class Ended(NamedTuple):
    """
    Why a stream ended before its answer was complete.

    code: the peer's, or None where the connection is gone. reason: in words that are the same each time. untouched:
    it never left us, or the peer says that it has done nothing with it.
    """

    code: ErrorCode | None
    reason: str
    untouched: bool


class Stream(Protocol):
    """One request and what comes back; its methods are called while bytes are received."""

    stream_id: int
    shipment: Shipment
    """That its fields leave with. Both are the session's to set."""
    received_bytes: int
    """Since the peer was last given room for more; the session's, too. All begin with 0."""

    def take_head(self, head: Head, *, is_last: bool) -> None:
        """Fields, or trailers."""
        ...

    def take_data(self, data: bytes, *, is_last: bool) -> None:
        """A part of the answer's body."""
        ...

    def take_end(self, ended: Ended) -> None:
        """There will be no more."""
        ...
