"""A store of blobs in memory, with failures to order: a `BlobStore` for tests of what reads and writes through one."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from stepbench.drivers.blobs import BlobTransfer
from stepbench.errors import TargetUnavailableError
from stepbench.model.errors import NOT_FOUND
from stepbench.model.request import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from stepbench.clock import Clock


class MemoryBlobs:
    """
    A `BlobStore`.

    `blobs` is what it holds. `most_in_flight`: how many gets and puts were on their way at once, at most. `opened` and
    `closed` count calls.

    Args:
        clock: by which it stamps.
        failing: by the key's end, what a get or a put of it is answered.
        hanging: ends of keys whose gets and puts are never answered.
        away: by the key's end, how long a get or a put of it waits for a connection, in seconds.
        passing_s: how long each takes.
        raising: ends of keys at which the driver itself breaks, against its contract.
        damage: what becomes of a blob between a put and a get.
        unavailable: `open` raises TargetUnavailableError.
    """

    def __init__(  # noqa: PLR0913 -- one per thing that can go differently
        self,
        clock: Clock,
        *,
        failing: Mapping[str, tuple[Outcome, str]] | None = None,
        hanging: Collection[str] = (),
        away: Mapping[str, float] | None = None,
        passing_s: float = 0,
        raising: Collection[str] = (),
        damage: Callable[[bytes], bytes] = bytes,
        unavailable: bool = False,
    ) -> None:
        self._clock = clock
        self._failing, self._hanging, self._raising = failing or {}, tuple(hanging), tuple(raising)
        self._away, self._passing_s = away or {}, passing_s
        self._damage = damage
        self._unavailable = unavailable
        self.blobs: dict[str, bytes] = {}
        self.opened = self.closed = 0
        self._in_flight = self.most_in_flight = 0

    async def open(self) -> None:
        """Connect to nothing."""
        if self._unavailable:
            message = "the store in memory is to be unavailable"
            raise TargetUnavailableError(message)
        self.opened += 1

    async def prepare(self) -> None:
        """Nothing to make."""

    async def ready(self) -> bool:
        """Return True."""
        return True

    async def put(self, key: str, blob: bytes | bytearray | memoryview) -> BlobTransfer:
        """Keep a copy."""
        began_ns, failed = await self._pass(key)
        if failed is None:
            self.blobs[key] = bytes(blob)
        return self._transfer(began_ns, len(blob), failed)

    async def get(self, key: str) -> tuple[bytes, BlobTransfer]:
        """Return what was kept, damaged as ordered."""
        began_ns, failed = await self._pass(key)
        if failed is None and key not in self.blobs:
            failed = (Outcome.FAILED, NOT_FOUND)
        blob = self._damage(self.blobs[key]) if failed is None else b""
        return blob, self._transfer(began_ns, len(blob), failed)

    async def delete(self, keys: Sequence[str]) -> int:
        """Remove those that are there, and return how many."""
        return sum(self.blobs.pop(key, None) is not None for key in keys)

    async def keys(self) -> tuple[str, ...]:
        """Return what is left."""
        return tuple(self.blobs)

    async def tear_down(self) -> bool:
        """Remove everything."""
        self.blobs.clear()
        return True

    def resource_names(self) -> tuple[str, ...]:
        """Return nothing: it is gone with the process."""
        return ()

    async def close(self) -> None:
        """Count it."""
        self.closed += 1

    async def provider(self) -> str:
        """Return what it is."""
        return "memory"

    async def _pass(self, key: str) -> tuple[int, tuple[Outcome, str] | None]:
        """Let others have their turn; return when the request began, and why it fails, if it is to."""
        await asyncio.sleep(next((seconds for end, seconds in self._away.items() if key.endswith(end)), 0))
        began_ns = self._clock.now_ns()
        self._in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self._in_flight)
        try:
            await asyncio.sleep(self._passing_s)
            if key.endswith(self._hanging):
                await asyncio.Event().wait()
            if key.endswith(self._raising):
                message = f"{key} is to break the driver"
                raise KeyError(message)
        finally:
            self._in_flight -= 1
        return began_ns, next((failure for end, failure in self._failing.items() if key.endswith(end)), None)

    def _transfer(self, began_ns: int, size: int, failed: tuple[Outcome, str] | None) -> BlobTransfer:
        whole_ns = self._clock.now_ns() - began_ns
        outcome, error = failed or (Outcome.OK, "")
        return BlobTransfer(began_ns, 0, whole_ns, size, 1, outcome, error)
