"""Quiet in the process while something is measured."""

from __future__ import annotations

import gc
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

SWITCH_INTERVAL_S = 0.0001
"""How long a thread on the side may keep the interpreter; the default is 5 ms, which would be lateness."""


@contextmanager
def quiet() -> Iterator[None]:
    """No garbage collection, short turns for other threads; as before afterwards."""
    was_enabled, was_interval = gc.isenabled(), sys.getswitchinterval()
    gc.collect()
    gc.freeze()
    gc.disable()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    try:
        yield
    finally:
        sys.setswitchinterval(was_interval)
        gc.unfreeze()
        if was_enabled:
            gc.enable()
