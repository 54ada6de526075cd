"""Prepared requests that write down what an engine does with them, and milliseconds for tests of the engines."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.support.fake_clock import START_NS, FakeClock

from stepbench.model.request import Outcome, Result

if TYPE_CHECKING:
    from collections.abc import Callable

MS = 1_000_000


def ms(*values: float) -> list[int]:
    """Return milliseconds as nanoseconds."""
    return [round(value * MS) for value in values]


@dataclass
class Step:
    """`PendingRequest` that writes down when what is done with it; answered `after_ms`, or never."""

    number: int
    clock: FakeClock
    log: list[tuple[str, int, float]]
    after_ms: float | None = 1
    breaks: str = ""

    def __post_init__(self) -> None:
        """Note that it is made now."""
        self._note("made")
        if self.breaks == "made":
            raise KeyError

    def send(self, done: Callable[[Result], None]) -> None:
        """See `PendingRequest`."""
        self._note("sent")
        if self.breaks == "sent":
            raise KeyError
        if self.after_ms is not None:
            now_ns = self.clock.now_ns()
            answer = Result(now_ns, now_ns + round(self.after_ms * MS), Outcome.OK)
            asyncio.get_running_loop().call_later(self.after_ms / 1e3, done, answer)

    def abandon(self) -> None:
        """Say nothing, against its contract."""
        self._note("abandoned")

    def _note(self, what: str) -> None:
        self.log.append((what, self.number, (self.clock.now_ns() - START_NS) / MS))
