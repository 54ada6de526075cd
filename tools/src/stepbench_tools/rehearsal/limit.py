"""A limit in time on whatever the main thread does, waiting for SAM CLI included."""

from __future__ import annotations

import contextlib
import math
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType


class TimeUp(KeyboardInterrupt):
    """The time that the budget allows is up."""


@contextlib.contextmanager
def limited(seconds: float) -> Iterator[None]:
    """
    Raise TimeUp in the main thread after so long.

    Raises:
        TimeUp: as asked for, also where whoever took the interrupt went on without raising it.
    """
    up = False

    def handle(_number: int, _frame: FrameType | None) -> None:
        nonlocal up
        up = True
        raise TimeUp

    before = signal.signal(signal.SIGALRM, handle)
    if math.isfinite(seconds):
        signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-3))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if up:
            raise TimeUp
