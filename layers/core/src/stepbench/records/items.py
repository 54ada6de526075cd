"""What is kept of each t4 item, some 20 bytes: its request, its batch, and what its receiver said of itself."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from stepbench.records.t4 import T4Item

RECEIVER = "receiver"
_WATCHER = "watcher"


class Items:
    """
    Columns, one row an item in the order in which they were added.

    Request ids are kept as their hash values: of ten million, the odds that any two are alike are 1 in 370,000.
    """

    def __init__(self) -> None:
        self._request, self._batch = array("q"), array("I")
        self._cold, self._watched, self._received = bytearray(), bytearray(), bytearray()
        self._cold_init_ns: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._request)

    def add(self, items: Sequence[T4Item]) -> None:
        """More of them."""
        self._request.extend([hash(item.request_id) for item in items])
        self._batch.extend([item.batch for item in items])
        self._cold.extend([item.cold for item in items])
        self._watched.extend([item.source.startswith(_WATCHER) for item in items])
        self._received.extend([item.source == RECEIVER for item in items])
        received = (item for item in items if item.cold and item.source == RECEIVER)
        self._cold_init_ns.update((hash(item.request_id), item.init_ns) for item in received)

    @property
    def request(self) -> NDArray[np.int64]:
        """A number for each one's request id."""
        return np.frombuffer(self._request, dtype=np.int64)

    @property
    def batch(self) -> NDArray[np.uint32]:
        """How many records were delivered together."""
        return np.frombuffer(self._batch, dtype=np.uint32)

    @property
    def cold(self) -> NDArray[np.bool_]:
        """Whether it was a sandbox's first invocation."""
        return np.frombuffer(self._cold, dtype=np.bool_)

    @property
    def watched(self) -> NDArray[np.bool_]:
        """Whether a watcher saw it."""
        return np.frombuffer(self._watched, dtype=np.bool_)

    @property
    def all_received(self) -> bool:
        """Whether all are of push receivers."""
        return bool(np.frombuffer(self._received, dtype=np.bool_).all())

    def invocations(self) -> RequestSet:
        """Of push receivers."""
        received = np.frombuffer(self._received, dtype=np.bool_)
        return RequestSet(np.unique(self.request[received]))

    def cold_init_ns(self) -> dict[int, int]:
        """Of each invocation of a push receiver that was its sandbox's first: how long that took to begin."""
        return self._cold_init_ns


class RequestSet:
    """Invocations, each once."""

    def __init__(self, ascending: NDArray[np.int64]) -> None:
        self._ascending = ascending

    def __len__(self) -> int:
        return self._ascending.size

    def __contains__(self, request_id: object) -> bool:
        place = int(np.searchsorted(self._ascending, hash(request_id)))
        return place < self._ascending.size and bool(self._ascending[place] == hash(request_id))
