"""
What a store's room has to offer for functions to pass data through it: blobs of up to 256 MiB under keys of a trial.

Nothing is tried again: what a transfer meets is its result, and its caller decides. What is measured is the store as it
is reached from one function; a connection that a transfer finds missing is made before its time begins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepbench.model.result import Outcome

MOST_BLOB_BYTES = 256 * 2**20
TRUNCATED = "truncated"
"""A part of a blob is missing, or of another length than it has to have."""

Blob = bytes | bytearray | memoryview


class BlobTransfer(NamedTuple):
    """
    One blob's way. Times are in ns.

    began_ns: since the epoch, the last statement before the first request is handed to the kernel; before the body's
        hash, where a put needs one. Where there was no connection, the moment of giving up.
    wait_ns: the store's part: of a get from there to the answer's first byte, of a put from the moment at which the
        last byte is handed over to the answer.
    whole_ns: from there to the last byte of a get, or the answer to a put.
    blob_bytes: how much has arrived whole; 0 unless `outcome` is OK.
    requests: how many the store was sent.
    outcome: a get is OK or FAILED, since it changes nothing; a put without an answer is UNKNOWN.
    error: the store's code, or one of `model.errors`, or `TRUNCATED`.
    """

    began_ns: int
    wait_ns: int
    whole_ns: int
    blob_bytes: int
    requests: int
    outcome: Outcome
    error: str


class BlobStore(Protocol):
    """
    The blobs of a trial in one store, as one task or control stage reaches it; several transfers may be under way.

    Keys are `<trial tag>/…`, of at most 200 characters. What the store or the network does is a transfer's outcome;
    TargetUnavailableError comes from the other methods only.
    """

    async def open(self) -> None:
        """Connect; no effect on data. Raises TargetUnavailableError."""
        ...

    async def prepare(self) -> None:
        """Make what holds the trial's blobs. Idempotent. Raises TargetUnavailableError."""
        ...

    async def ready(self) -> bool:
        """Return whether what `prepare` asked for is there. Raises TargetUnavailableError if the store is silent."""
        ...

    async def put(self, key: str, blob: Blob) -> BlobTransfer:
        """Write a blob of 1 byte to `MOST_BLOB_BYTES`, which must not change meanwhile; what is there is replaced."""
        ...

    async def get(self, key: str) -> tuple[bytearray | bytes, BlobTransfer]:
        """Read a blob; without one FAILED "not_found", with nothing."""
        ...

    async def delete(self, keys: Sequence[str]) -> int:
        """Remove blobs; return how many were there, whole or not, and are gone. Raises TargetUnavailableError."""
        ...

    async def keys(self) -> tuple[str, ...]:
        """Return the key of everything that is left of the trial's, sorted. Raises TargetUnavailableError."""
        ...

    async def tear_down(self) -> bool:
        """Remove a part of all that the trial has there, in at most some 60 s; True when nothing is left."""
        ...

    def belongings(self) -> tuple[str, ...]:
        """Name what `tear_down` removes, as the store's own tools call it; each name has the trial's tag in it."""
        ...

    async def close(self) -> None:
        """Release connections; safe to call twice."""
        ...

    async def provider(self) -> str:
        """Return what serves this store, with version, as the report names it."""
        ...
