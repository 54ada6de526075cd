"""Where requests and answers begin and end in a stream of bytes."""

from __future__ import annotations

from typing import NamedTuple, Protocol


class Piece(NamedTuple):
    """
    Bytes that are passed on together.

    begins, ends: whether they are the first, or the last, of a request (or of an answer).
    stream: which of the exchanges under way on this connection; 0 where there is one at a time.
    """

    data: bytes
    begins: bool = False
    ends: bool = False
    stream: int = 0


class Framing(Protocol):
    """One connection's protocol, both directions. Made anew for each connection."""

    def requests(self, data: bytes) -> list[Piece]:
        """What the client has sent since the last call; incomplete frames are kept for the next one."""
        ...

    def answers(self, data: bytes) -> list[Piece]:
        """The same of the server."""
        ...

    def forwarded(self, first: Piece) -> None:
        """A request whose first piece is this one goes to the server, so that an answer will come."""
        ...
