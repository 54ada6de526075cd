"""Being asked to stop."""

from __future__ import annotations

import os
import signal

import pytest

from stepbench_tools.local.interrupts import STOP_SIGNALS, interruptible, shielded


@pytest.mark.parametrize(
    ("number", "told"),
    [(signal.SIGINT, signal.SIG_IGN), (signal.SIGTERM, signal.SIG_IGN), (signal.SIGHUP, signal.SIG_DFL)],
)
def test_every_way_to_ask_is_an_interrupt(number: signal.Signals, told: signal.Handlers) -> None:
    """`kill` and a closed terminal have to stop a run as Ctrl-C does, also in a job whose shell ignores Ctrl-C."""
    before = signal.signal(number, told)
    try:
        with pytest.raises(KeyboardInterrupt), interruptible():
            os.kill(os.getpid(), number)
        assert signal.getsignal(number) is told
    finally:
        signal.signal(number, before)


def test_nohup_is_obeyed() -> None:
    """After `nohup stepbench run …` the terminal is closed, and the run goes on over night."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with interruptible():
            os.kill(os.getpid(), signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("number", STOP_SIGNALS)
def test_nobody_interrupts_the_last_clean_up(number: signal.Signals) -> None:
    """A third Ctrl-C must not leave processes either; afterwards signals count again."""
    before = signal.signal(number, signal.SIG_DFL)  # under `nohup`, the tests' own process ignores SIGHUP
    try:
        with interruptible():
            with shielded():
                os.kill(os.getpid(), number)
            with pytest.raises(KeyboardInterrupt):
                os.kill(os.getpid(), number)
    finally:
        signal.signal(number, before)


def test_a_terminal_is_closed_once() -> None:
    """The kernel says so to the session's leader and to the foreground, which may both be us: the stop goes on."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    stopped = False
    try:
        with interruptible():
            try:
                os.kill(os.getpid(), signal.SIGHUP)
            except KeyboardInterrupt:
                os.kill(os.getpid(), signal.SIGHUP)
                stopped = True
        assert stopped
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_DFL
    finally:
        signal.signal(signal.SIGHUP, before)
