"""
Executions that begin when they are started, as on AWS.

MiniStack waits 0.15 s before each one's first state, which was most of a small DAG's time. `shim.py` loads this by
path, so it imports nothing of ours.
"""

from __future__ import annotations

from typing import Any

BEFORE_FIRST_STATE_S = 0.15


class _Time:
    """The module `time`, but for that wait."""

    def __init__(self, module: Any) -> None:  # noqa: ANN401 -- a module
        self._module = module

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 -- whatever it has
        return getattr(self._module, name)

    def sleep(self, seconds: float) -> None:
        """Sleep, except for exactly this time, which no Wait of ours has."""
        if seconds != BEFORE_FIRST_STATE_S:
            self._module.sleep(seconds)


def begin_at_once(service: Any) -> None:  # noqa: ANN401 -- the module `stepfunctions`
    """Take the wait away."""
    service.time = _Time(service.time)
