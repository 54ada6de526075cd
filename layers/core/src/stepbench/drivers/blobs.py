"""
What a store's room has to offer for functions to pass data through it: blobs of up to 256 MiB under keys of a trial.

Nothing is tried again: what a transfer meets is its result, and its caller decides. What is measured is the store as it
is reached from one function; a connection that a transfer finds missing is made before its time begins.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar

from stepbench.contracts.dataflow.dag import MAX_OBJECT_BYTES
from stepbench.errors import StepbenchError
from stepbench.model.errors import connect_error
from stepbench.model.request import Outcome
from stepbench.wire.stream import ByteStream, StreamEndedError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

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


class TimedBlobs(ABC):
    """The part of every `BlobStore` that times transfers, and makes an outcome of what breaks one."""

    _clock: Clock

    async def put(self, key: str, blob: Blob) -> BlobTransfer:
        """See `BlobStore`."""
        view, times = view_of(blob), TransferTimes(self._clock)
        return times.end(await verdict_of(self._put(key, view, times), writing=True), len(view))

    async def get(self, key: str) -> tuple[bytearray | bytes, BlobTransfer]:
        """See `BlobStore`."""
        times, found = TransferTimes(self._clock), list[bytearray]()
        verdict = await verdict_of(self._get(key, times, found), writing=False)
        blob = found[0] if found else b""
        return blob, times.end(verdict, len(blob))

    @abstractmethod
    async def _put(self, key: str, view: memoryview, times: TransferTimes) -> Verdict:
        """Write a blob, and note the times."""

    @abstractmethod
    async def _get(self, key: str, times: TransferTimes, found: list[bytearray]) -> Verdict:
        """Read a blob, note the times, and append it to `found` if it came whole."""


IDLE_S = 10.0
"""What has rested longer may be dead without a sign: a frozen sandbox answers nothing, and balancers forget."""
_FRESH_S = 0.001
"""What was in use so lately is not looked at: who means to end a connection says so in the answer."""
KeyT = TypeVar("KeyT")
StreamT = TypeVar("StreamT", bound=ByteStream)


class StreamPool(Generic[KeyT, StreamT]):
    """
    Streams that wait for their next use, by where they lead; as many are made as are in use at a time.

    Args:
        connect: makes one, within a time of its own.
    """

    def __init__(self, connect: Callable[[KeyT], Awaitable[StreamT]]) -> None:
        self._connect = connect
        self._idle: dict[KeyT, list[tuple[StreamT, float]]] = {}
        self._in_use: set[StreamT] = set()

    def use(self, key: KeyT) -> _BorrowedStream[KeyT, StreamT]:
        """
        Return a stream for a block, `async with`; if that raises, it is closed.

        Raises:
            Exception: at the block's begin, as `connect`.
        """
        return _BorrowedStream(self, key)

    async def take(self, key: KeyT) -> StreamT:
        """Return a stream that is in use from now on. Raises as `connect`."""
        stream = self._find_idle(key) or await self._connect(key)
        stream.has_sent = False
        self._in_use.add(stream)
        return stream

    def give_back(self, key: KeyT, stream: StreamT) -> None:
        """Keep a stream for its next use, if it is open."""
        self._in_use.discard(stream)
        if stream.is_open:
            self._idle.setdefault(key, []).append((stream, time.time()))

    def close(self) -> None:
        """End all of them, those in use, too."""
        for stream in [*self._in_use, *(stream for idle in self._idle.values() for stream, _ in idle)]:
            stream.close()
        self._idle.clear()

    def _find_idle(self, key: KeyT) -> StreamT | None:
        now_s, idle = time.time(), self._idle.get(key, [])  # the other clock may stand still with the sandbox
        while idle:
            stream, since_s = idle.pop()
            rested_s = now_s - since_s
            if 0 <= rested_s <= _FRESH_S or (0 <= rested_s <= IDLE_S and stream.is_usable()):
                return stream
            stream.close()
        return None


class _BorrowedStream(Generic[KeyT, StreamT]):
    """A block's use of a stream; a generator in its place would take four times as long."""

    __slots__ = ("_key", "_pool", "_stream")
    _stream: StreamT

    def __init__(self, pool: StreamPool[KeyT, StreamT], key: KeyT) -> None:
        self._pool = pool
        self._key = key

    async def __aenter__(self) -> StreamT:
        self._stream = await self._pool.take(self._key)
        return self._stream

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._stream.close()
        self._pool.give_back(self._key, self._stream)
