"""
How far a read is, its file's digest, and why it has failed: in few words, a row's `error`, and no exception.

Progress is written by the threads that read, and read by the one that waits for them.

The digest is so made that MiBs may come in any order, over several connections: it is the XXH3 (64 bits) of the
big-endian XXH3s (64 bits) of the file's MiBs, in order; the last one may be shorter.
"""

from __future__ import annotations

import copy
import errno
import heapq
import socket
import ssl
import threading
import time
from itertools import pairwise
from typing import TYPE_CHECKING, Self

import xxhash

from stepbench.model.errors import CONNECTION_CLOSED, CONNECTION_RESET, TIMEOUT, connect_error
from stepbench.wire.http1 import MalformedHttpError
from stepbench.wire.http1.download import DownloadRefusedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

MIB = 2**20
WRONG_DIGEST = "wrong-digest"
CANCELLED, STOPPED, NO_TIME = "cancelled", "stopped", "process-timeout"
"""Why a read was cut off: the trial's flag; the task was asked to end; the function's own time was over."""
_OF_FILE = frozenset({WRONG_DIGEST, "EIO", "EACCES", "EPERM"})
"""What a file made anew is rid of, and what its size and its noted digest do not show."""


def is_damage(error: str) -> bool:
    """Return whether a row's `error` is the file's own: `SeedFiles` then makes it anew before the next trial."""
    return error in _OF_FILE


class ReadFailedError(Exception):
    """A read has failed; the text is its row's `error`."""


def wrong_length(found_bytes: int, expected_bytes: int) -> str:
    """Return what is said of a file, or an object, that is not as long as it has to be."""
    return f"wrong-length: {found_bytes} bytes in place of {expected_bytes}"


def read_error(error: BaseException, *, connected: bool) -> str:  # noqa: PLR0911 -- a table
    """Return a row's `error`; `connected`: whether the connection had been made, if there was one to be made."""
    match error:
        case ReadFailedError() | DownloadRefusedError():
            return str(error)
        case MalformedHttpError():
            return error.code
        case ssl.SSLEOFError() if connected:
            return CONNECTION_CLOSED
        case socket.gaierror():
            return "connect: no address"
        case OSError() if not connected:
            return connect_error(error)
        case ConnectionResetError() | BrokenPipeError():
            return CONNECTION_RESET
        case ssl.SSLError():
            return f"tls: {error.reason}" if error.reason else "tls: failed"
        case TimeoutError():
            return TIMEOUT
        case OSError(errno=int(number)) if number in errno.errorcode:
            return errno.errorcode[number]
        case _:
            return f"{type(error).__name__} in the program"


def file_digest(mib_digests: Iterable[bytes]) -> str:
    """Return a file's digest, hexadecimal, from those of its MiBs."""
    return xxhash.xxh3_64_hexdigest(b"".join(mib_digests))


class MibDigests:
    """Digests of MiBs, one after the other, of bytes that come in pieces of any size."""

    __slots__ = ("_hash", "_in_mib", "done")

    def __init__(self) -> None:
        self._hash = xxhash.xxh3_64()
        self._in_mib = 0
        self.done: list[bytes] = []

    def add(self, data: memoryview) -> int:
        """Take a piece; return how many MiBs it has completed."""
        before, at = len(self.done), 0
        while (end := at + MIB - self._in_mib) <= len(data):
            self._hash.update(data[at:end])
            self._end_mib()
            at = end
        self._hash.update(data[at:])
        self._in_mib += len(data) - at
        return len(self.done) - before

    def finish(self) -> list[bytes]:
        """Return all, the last and shorter one included."""
        if self._in_mib:
            self._end_mib()
        return self.done

    def _end_mib(self) -> None:
        self.done.append(self._hash.digest())
        self._hash.reset()
        self._in_mib = 0


class Part:
    """
    A run of whole MiBs of a file (the file's last one may be shorter), as one reader receives it.

    Times are by `clock_ns`. mib_ns: when each MiB was there.
    """

    __slots__ = (
        "_clock_ns",
        "_digests",
        "_taking",
        "begin",
        "digest_ns",
        "first_ns",
        "last_ns",
        "mib_ns",
        "received",
        "size",
    )

    def __init__(self, begin: int, size: int, clock_ns: Callable[[], int]) -> None:
        self.begin = begin
        self.size = size
        self.received = 0
        self.first_ns: int | None = None
        self.last_ns = 0
        self.mib_ns: list[int] = []
        self.digest_ns = 0
        self._clock_ns = clock_ns
        self._digests = MibDigests()
        self._taking = threading.Lock()

    def add(self, data: memoryview) -> None:
        """Take bytes that have just come."""
        now_ns = self._clock_ns()
        with self._taking:
            if self.first_ns is None:
                self.first_ns = now_ns
            completed = self._digests.add(data)
            self.received += len(data)
            self.last_ns = now_ns
            if completed:
                self.mib_ns += [now_ns] * completed
            self.digest_ns += self._clock_ns() - now_ns

    def copied(self) -> Self:
        """Return it as it is between two pieces, for good."""
        with self._taking:
            found = copy.copy(self)
            found.mib_ns = self.mib_ns[:]
        return found

    def digests(self) -> list[bytes]:
        """Return the digests of its MiBs; to be called once, at its end."""
        return self._digests.finish()


class Progress:
    """
    One read. `begun_ns`: when the request or the first read is handed to the kernel, by `clock_ns`; None: it is not.

    connect_ns, own_address: of the connection that was made for it; cached_share: see `TransferRow`.
    """

    def __init__(
        self, clock_ns: Callable[[], int] = time.monotonic_ns, cpu_ns: Callable[[], int] = time.process_time_ns
    ) -> None:
        self.parts: list[Part] = []
        self.connect_ns: int | None = None
        self.own_address = ""
        self.cached_share: float | None = None
        self.began_at_ns = time.time_ns()
        self.begun_ns: int | None = None
        self.digest = ""
        self._clock_ns = clock_ns
        self._cpu_ns = cpu_ns
        self._cpu_begun_ns = self._cpu_ended_ns = 0

    def divide(self, file_bytes: int, readers: int) -> list[Part]:
        """Divide the file into parts of whole MiBs, as equal as they can be; no more than it has MiBs."""
        mibs = -(-file_bytes // MIB)
        count = min(readers, mibs)
        bounds = [min(mibs * place // count * MIB, file_bytes) for place in range(count + 1)]
        self.parts = [Part(begin, end - begin, self._clock_ns) for begin, end in pairwise(bounds)]
        return self.parts

    def begin(self) -> None:
        """Start the time of the transfer."""
        self.began_at_ns = time.time_ns()
        self._cpu_begun_ns = self._cpu_ns()
        self.begun_ns = self._clock_ns()

    def end(self) -> None:
        """Note that all bytes are there; their digest is made known."""
        self._cpu_ended_ns = self._cpu_ns()
        self.digest = file_digest(each for part in self.parts for each in part.digests())

    def given_up(self) -> Self:
        """Return it as it is now, and not done, whatever the threads that read may still come to."""
        parts = [part.copied() for part in self.parts]  # before the rest: begun before them
        found = copy.copy(self)
        found.parts, found.digest = parts, ""
        return found

    @property
    def is_done(self) -> bool:
        """Return whether all bytes are there."""
        return bool(self.digest)

    @property
    def received_bytes(self) -> int:
        """Return how many bytes have come so far."""
        return sum(part.received for part in self.parts)

    @property
    def first_byte_ns(self) -> int | None:
        """Return when the first byte was there, from the start; None: none is."""
        firsts = [part.first_ns for part in self.parts if part.first_ns is not None]
        return min(firsts) - self.begun_ns if firsts and self.begun_ns is not None else None

    @property
    def transfer_ns(self) -> int | None:
        """Return when the last byte was there, from the start; None: it is not."""
        if not self.is_done or self.begun_ns is None:
            return None
        return max(part.last_ns for part in self.parts) - self.begun_ns

    @property
    def mib_ns(self) -> tuple[int, ...]:
        """Return when the file's first, second, … whole MiB was there, whichever it was, from the start."""
        if self.begun_ns is None:
            return ()
        return tuple(mark_ns - self.begun_ns for mark_ns in heapq.merge(*(part.mib_ns[:] for part in self.parts)))

    @property
    def digest_ns(self) -> int:
        """Return what the digest and the counting of all bytes took, of all readers together."""
        return sum(part.digest_ns for part in self.parts)

    @property
    def cpu_ns(self) -> int:
        """Return the process's CPU time, user and system, of the transfer, or of what there was of it."""
        if self.begun_ns is None:
            return 0
        return (self._cpu_ended_ns or self._cpu_ns()) - self._cpu_begun_ns
