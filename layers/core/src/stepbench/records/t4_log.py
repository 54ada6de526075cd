"""What receivers print: t4 lines, where the trial asks for them."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, Any

from stepbench.errors import RecordsUnavailableError
from stepbench.records.t4_lines import is_logged, t4_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

ASK_AGAIN_NS = 60_000_000_000


def print_line(line: str) -> None:
    """One write, so that one line is one log event. A log that is gone fails no invocation: the line is then missed."""
    with contextlib.suppress(OSError):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


class T4Log:
    """
    Prints t4 lines.

    A receiver serves every trial of the stack, and learns what a trial wants from its `layout.LOG_T4` flag, once a
    sandbox and after the item is stored; from then on nothing is asked. While the answer is not to be had, lines are
    printed: that is when the second source is needed most.

    Args:
        find_mode: the trial's `log_t4` by its tag, None for `none`. Raises RecordsUnavailableError.
        write: takes one line.
    """

    def __init__(self, find_mode: Callable[[str], str | None], write: Callable[[str], None] = print_line) -> None:
        self._find_mode = find_mode
        self._write = write
        self._modes: dict[str, str] = {}
        self._asked_ns: dict[str, int] = {}

    def knows(self, tag: str) -> bool:
        """Whether `add` would ask nobody."""
        return tag in self._modes

    def add(self, tag: str, request_id: str, t4_ns: int, item: Mapping[str, Any], *, ask: bool = True) -> None:
        """Print the item's lines, if its trial wants that; also if that is not known and nobody is to be asked."""
        mode = self._mode(tag, t4_ns) if ask else self._modes.get(tag, "all")
        if is_logged(mode, request_id):
            for line in t4_lines(tag, request_id, t4_ns, item):
                self._write(line)

    def _mode(self, tag: str, now_ns: int) -> str:
        known = self._modes.get(tag)
        if known is not None:
            return known
        asked_ns = self._asked_ns.get(tag)
        if asked_ns is not None and now_ns - asked_ns < ASK_AGAIN_NS:
            return "all"
        self._asked_ns[tag] = now_ns
        try:
            self._modes[tag] = self._find_mode(tag) or "none"
        except RecordsUnavailableError:
            return "all"
        return self._modes[tag]
