from __future__ import annotations

import contextlib
import gc
import sys

import pytest

from stepbench.load.quiet import SWITCH_INTERVAL_S, quiet


def test_no_collection_while_quiet_and_everything_as_before_afterwards() -> None:
    """A collection in the middle of a slice is lateness; a sandbox that never collects again runs out of memory."""
    before = sys.getswitchinterval()
    with contextlib.suppress(KeyError), quiet():
        assert not gc.isenabled()
        assert sys.getswitchinterval() == pytest.approx(SWITCH_INTERVAL_S)
        raise KeyError
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0
    assert sys.getswitchinterval() == pytest.approx(before)
