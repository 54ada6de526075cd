"""The limit in time, without which a waiting deployment would go on costing."""

from __future__ import annotations

import signal
from contextlib import suppress

import pytest

from stepbench_tools.rehearsal.limit import TimeUp, limited

pytestmark = pytest.mark.timeout(60, method="thread")  # the other method needs the very timer


def test_it_ends_what_waits() -> None:
    """The signal is what ends it; nothing else would."""
    with pytest.raises(TimeUp), limited(0):
        signal.pause()


def test_it_is_raised_again_where_an_interrupt_was_taken() -> None:
    """`execute` takes every KeyboardInterrupt to stop a run in order, and goes on."""
    with pytest.raises(TimeUp), limited(0), suppress(KeyboardInterrupt):
        signal.pause()


def test_without_a_limit_nothing_is_set() -> None:
    """And the handler of before is there again afterwards."""
    before = signal.getsignal(signal.SIGALRM)
    with limited(float("inf")):
        assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert signal.getsignal(signal.SIGALRM) is before
