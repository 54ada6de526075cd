"""Ctrl-C, `kill` and a closed terminal: one way to be asked to stop, and moments in which nobody may ask."""

from __future__ import annotations

import contextlib
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ASKING_TO_STOP = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """
    Raise KeyboardInterrupt for each signal that asks to stop, also where a shell has told us to ignore it.

    (It does so to every job in the background. A closed terminal is ignored where `nohup` asks for that.)
    """
    asking = [number for number in ASKING_TO_STOP if not _is_nohup(number)]
    before = {number: signal.signal(number, signal.default_int_handler) for number in asking}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _is_nohup(number: signal.Signals) -> bool:
    return number == signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN


@contextlib.contextmanager
def shielded() -> Iterator[None]:
    """Ignore those signals: for the few seconds in which the last of the processes are ended."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in ASKING_TO_STOP}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
