"""What became of each invocation of a measured function: what its t4 item has besides, and columns of many."""

from __future__ import annotations

import sys
from array import array
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray


class FunctionRun(NamedTuple):
    """
    What became of one invocation of a measured function.

    called_ns: when the handler was called, at t4 or just behind it. t5_ns: 0 = it never ended, as far as is known.
    failed_from: index in the batch of the first record that was not processed. error: type of the handler's error;
    "" = none, also where it never ended. resolution_ns: of its clock.
    """

    t4_ns: int
    called_ns: int
    t5_ns: int
    failed_from: int
    error: str
    resolution_ns: int = 1


def parse_run(key: str, item: Mapping[str, Any]) -> FunctionRun:
    """Parse what only a measured function's items have; raises KeyError, TypeError or ValueError."""
    t4_ns = int(key.rpartition("#")[2])
    return FunctionRun(
        t4_ns=t4_ns,
        called_ns=int(item.get("called_ns", t4_ns)),
        t5_ns=int(item["t5_ns"]),
        failed_from=int(item["failed_from"]),
        error=sys.intern(str(item["error"])),
        resolution_ns=int(item.get("t4_resolution_ns", 1)),
    )


class RunColumns:
    """
    Columns with 38 bytes of each invocation of a measured function, a row for each row of `ItemColumns`.

    errors: their types, in which `error` is an index; "" = none is the first. resolution_ns: of the coarsest clock.
    """

    def __init__(self, rows_before: int = 0) -> None:
        self._t4_ns, self._called_ns, self._t5_ns = (array("q", bytes(8 * rows_before)) for _ in range(3))
        self._failed_from, self._init_ns = array("I", bytes(4 * rows_before)), array("q", bytes(8 * rows_before))
        self._error = array("H", bytes(2 * rows_before))
        self.errors: dict[str, int] = {"": 0}
        self.resolution_ns = 1

    def add(self, found: Sequence[FunctionRun | None], init_ns: Sequence[int]) -> None:
        """Add a row for each item; None of one that is no such invocation."""
        runs = [run or _NO_RUN for run in found]
        self._t4_ns.extend([run.t4_ns for run in runs])
        self._called_ns.extend([run.called_ns for run in runs])
        self._t5_ns.extend([run.t5_ns for run in runs])
        self._failed_from.extend([run.failed_from for run in runs])
        self._init_ns.extend(init_ns)
        self.resolution_ns = max([self.resolution_ns, *(run.resolution_ns for run in runs)])
        self._error.extend([self.errors.setdefault(run.error, len(self.errors)) for run in runs])

    def fail(self, rows: NDArray[np.int64], error: str) -> None:
        """Take these invocations for failed; those that have no error of their own get this one."""
        self.failed_from[rows] = 0
        nameless = rows[self.error[rows] == 0]
        if nameless.size:
            self.error[nameless] = self.errors.setdefault(error, len(self.errors))

    @property
    def t4_ns(self) -> NDArray[np.int64]:
        """Return when each began; 0 of items that are no such invocation."""
        return np.frombuffer(self._t4_ns, dtype=np.int64)

    @property
    def called_ns(self) -> NDArray[np.int64]:
        """Return when each one's handler was called; 0 of items that are no such invocation."""
        return np.frombuffer(self._called_ns, dtype=np.int64)

    @property
    def t5_ns(self) -> NDArray[np.int64]:
        """Return when each ended; 0 = never seen."""
        return np.frombuffer(self._t5_ns, dtype=np.int64)

    @property
    def failed_from(self) -> NDArray[np.uint32]:
        """Return the index in the batch of the first record that each did not process."""
        return np.frombuffer(self._failed_from, dtype=np.uint32)

    @property
    def init_ns(self) -> NDArray[np.int64]:
        """Return how long the init of each one's sandbox took."""
        return np.frombuffer(self._init_ns, dtype=np.int64)

    @property
    def error(self) -> NDArray[np.uint16]:
        """Return the number of each one's error in `errors`."""
        return np.frombuffer(self._error, dtype=np.uint16)


_NO_RUN = FunctionRun(0, 0, 0, 0, "")
