"""Being asked to stop: which signals do it, and the moments that they must not disturb."""

from __future__ import annotations

import contextlib
import signal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager
    from types import FrameType

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Ctrl-C, `kill` and a closed terminal are one interrupt, which a few moments have to be shielded from."""


def interruptible() -> AbstractContextManager[None]:
    """
    Raise KeyboardInterrupt for each signal that asks to stop, also where a shell has set us to ignore it.

    (It does so to every job in the background. A closed terminal is ignored where `nohup` asks for that.) A terminal is
    closed once, and the kernel may say so twice, to the session's leader and to the foreground: the second is ignored,
    since it is nobody's wish to stop stopping.
    """
    ignored = {signal.SIGHUP} if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else set()
    return _handled([number for number in STOP_SIGNALS if number not in ignored], _interrupt)


def shielded() -> AbstractContextManager[None]:
    """Ignore the signals for the few seconds in which the last of the processes are ended."""
    return _handled(STOP_SIGNALS, signal.SIG_IGN)


def _interrupt(number: int, frame: FrameType | None) -> None:
    if number == signal.SIGHUP:
        signal.signal(number, signal.SIG_IGN)
    signal.default_int_handler(number, frame)


@contextlib.contextmanager
def _handled(numbers: Sequence[signal.Signals], handler: Any) -> Iterator[None]:  # noqa: ANN401 -- as `signal.signal` takes
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, former in before.items():
            signal.signal(number, former)
