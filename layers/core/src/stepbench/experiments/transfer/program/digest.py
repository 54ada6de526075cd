"""
The digest of a file, so made that its MiBs may come in any order, over several connections.

It is the XXH3 (64 bits) of the big-endian XXH3s (64 bits) of its MiBs, in order; the last one may be shorter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import xxhash

if TYPE_CHECKING:
    from collections.abc import Iterable

MIB = 2**20


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
