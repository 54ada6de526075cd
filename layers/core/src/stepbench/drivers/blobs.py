"""
What a store's room has to offer for functions to pass data through it: blobs of up to 256 MiB under keys of a trial.

Nothing is tried again: what a transfer meets is its result, and its caller decides. What is measured is the store as it
is reached from one function; a connection that a transfer finds missing is made before its time begins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from stepbench.contracts.dataflow.dag import MAX_OBJECT_BYTES
from stepbench.errors import StepbenchError
from stepbench.model.errors import connect_error
from stepbench.model.request import Outcome
from stepbench.wire.stream import StreamEndedError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

    from stepbench.clock import Clock

TRUNCATED = "truncated"
"""A part of a blob is missing, or of another length than it has to have."""

Blob = bytes | bytearray | memoryview
Verdict = tuple[Outcome, str]
"""How a transfer ended, and why; as in `Result`."""


class BlobTransfer(NamedTuple):
    """
    One blob's way. Times are in ns.

    began_ns: since the epoch, the last statement before the first request is handed to the kernel; before the body's
        hash, where a put needs one. Where there was no connection, the moment of giving up.
    wait_ns: the store's part: of a get from there to the answer's first byte that reports its end, of a put the time
        in which there was nothing left to hand over, or nothing allowed, before an answer.
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
        """Write a blob of 1 byte to `MAX_OBJECT_BYTES`, in place of one that is there; it must not change meanwhile."""
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

    def resource_names(self) -> tuple[str, ...]:
        """Name what `tear_down` removes, as the store's own tools call it; each name has the trial's tag in it."""
        ...

    async def close(self) -> None:
        """Release connections; safe to call twice."""
        ...

    async def provider(self) -> str:
        """Return what serves this store, with version, as the report names it."""
        ...


class TransferTimes:
    """Takes the times of one transfer while it is under way, and makes its `BlobTransfer`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._requests = self._waited_ns = 0
        self._began_ns = self._wait_from_ns = self._wait_until_ns = 0

    def begin(self) -> None:
        """Note that the next statement hands a request over, or hashes its body; the first one counts."""
        self._requests += 1
        if not self._began_ns:
            self._began_ns = self._wait_from_ns = self._clock.now_ns()

    def hand_over(self) -> None:
        """Note that the kernel has a put's last byte; the last one counts."""
        self._wait_from_ns = self._clock.now_ns()

    def answered(self) -> None:
        """Note that an answer was awaited with more of a put to come; each counts."""
        now_ns = self._clock.now_ns()
        self._waited_ns += now_ns - self._wait_from_ns
        self._wait_from_ns = now_ns

    def first_byte(self) -> None:
        """Note that a get's answer has begun; the first one counts."""
        self._wait_until_ns = self._wait_until_ns or self._clock.now_ns()

    def redirected(self) -> None:
        """Note that the answer sent us to another node, whose answer is the one that counts."""
        self._wait_until_ns = 0

    def end(self, verdict: Verdict, blob_bytes: int) -> BlobTransfer:
        """Return what came of it, which is known now."""
        now_ns, (outcome, error) = self._clock.now_ns(), verdict
        began_ns = self._began_ns or now_ns
        wait_ns = self._waited_ns + (self._wait_until_ns or now_ns) - (self._wait_from_ns or now_ns)
        transferred = blob_bytes if outcome is Outcome.OK else 0
        return BlobTransfer(began_ns, wait_ns, now_ns - began_ns, transferred, self._requests, outcome, error)


async def verdict_of(work: Awaitable[Verdict], *, writing: bool) -> Verdict:
    """Return how a transfer ended; what broke it is an outcome, too."""
    try:
        return await work
    except StreamEndedError as ended:
        return Outcome.UNKNOWN if writing and ended.sent else Outcome.FAILED, ended.reason
    except (OSError, StepbenchError) as error:
        return Outcome.FAILED, connect_error(error)


def view_of(blob: Blob) -> memoryview:
    """
    Return a blob's bytes, which are not copied.

    Raises:
        ValueError: there are none, or too many.
    """
    view = memoryview(blob).cast("B")
    if not 0 < len(view) <= MAX_OBJECT_BYTES:
        message = f"a blob has 1 byte to {MAX_OBJECT_BYTES:,}; this one has {len(view):,}"
        raise ValueError(message)
    return view
