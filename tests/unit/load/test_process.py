from __future__ import annotations

import contextlib
import gc
import sys

import pytest

from stepbench.load.process import SWITCH_INTERVAL_S, cores_of, cpu_share, gc_paused


def test_no_collection_while_quiet_and_everything_as_before_afterwards() -> None:
    """A collection in the middle of a slice is lateness; a sandbox that never collects again runs out of memory."""
    gc.freeze()
    before, frozen = sys.getswitchinterval(), gc.get_freeze_count()
    with contextlib.suppress(KeyError), gc_paused():
        assert not gc.isenabled()
        assert sys.getswitchinterval() == pytest.approx(SWITCH_INTERVAL_S)
        raise KeyError
    assert gc.isenabled()
    assert gc.get_freeze_count() > frozen / 2  # some may have ended meanwhile
    assert sys.getswitchinterval() == pytest.approx(before)


def test_pauses_that_overlap_end_with_the_last_of_them() -> None:
    """As those of two writers in one process: whichever began first, neither measures with collections."""
    first, second = gc_paused(), gc_paused()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert not gc.isenabled()
    second.__exit__(None, None, None)
    assert gc.isenabled()


@pytest.mark.parametrize(
    ("memory_mb", "emulated", "cores"),
    [(1_769, False, 1), (3_538, False, 1), (1_024, False, 1_024 / 1_769), (1_024, True, 1), (0, False, 1)],
)
def test_a_thread_gets_a_core_or_its_functions_share_of_one(memory_mb: int, cores: float, *, emulated: bool) -> None:
    """Two cores do not help one thread of Python; an emulator does not hold functions to their size."""
    assert cores_of(memory_mb, emulated=emulated) == pytest.approx(cores)


def test_a_share_is_of_what_there_was() -> None:
    """3 s of CPU in 5 s, where half a core is what there is; without time there is none."""
    assert cpu_share(1.5, 5, 0.5) == pytest.approx(0.6)
    assert cpu_share(1, 0, 1) is None
