"""What a proxy did, for tests to compare exactly."""

from __future__ import annotations

import threading
from collections import Counter
from typing import NamedTuple


class Stats(NamedTuple):
    """
    Counts since the proxy began, or since `FaultProxy.forget`.

    connections: accepted. requests: begun by clients. forwarded: sent to the server to the end, copies too.
    answered: answers passed on to the end, the proxy's own too. faults: by the fault's name.
    """

    connections: int
    requests: int
    forwarded: int
    answered: int
    faults: dict[str, int]


class Tally:
    """Counters that one thread writes and another one reads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._faults: Counter[str] = Counter()

    def count(self, what: str) -> None:
        """One more of a field of `Stats`."""
        with self._lock:
            self._counts[what] += 1

    def fault(self, name: str) -> None:
        """One more fault."""
        with self._lock:
            self._faults[name] += 1

    def read(self) -> Stats:
        """All of them at one moment."""
        with self._lock:
            return Stats(
                connections=self._counts["connections"],
                requests=self._counts["requests"],
                forwarded=self._counts["forwarded"],
                answered=self._counts["answered"],
                faults=dict(self._faults),
            )

    def clear(self) -> None:
        """Begin again at 0."""
        with self._lock:
            self._counts.clear()
            self._faults.clear()
