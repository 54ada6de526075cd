"""What goes on beside the reads, once a second on a thread of its own: a sign of life, a look at the trial's flag."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from stepbench.errors import RecordsUnavailableError
from stepbench.records.storage import layout

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepbench.records.storage.receiver_paths import ReceiverTable

BEAT_S = 1.0


class Watcher:
    """
    Beats for one process, and calls `cancel` once when its trial is cancelled.

    A table that does not answer is no reason to stop: the rows themselves have their own way out.

    Args:
        table: nobody else may use it meanwhile.
        tag: the trial's.
        who: as the sign of life names the process.
        progress: returns its counters.
        cancel: is called on the watcher's thread.
        beat_s: how often.
    """

    def __init__(  # noqa: PLR0913 -- whose sign of life, where it goes, and what is called
        self,
        table: ReceiverTable,
        tag: str,
        who: str,
        progress: Callable[[], dict[str, int]],
        cancel: Callable[[], None],
        *,
        beat_s: float = BEAT_S,
    ) -> None:
        self._table = table
        self._tag = tag
        self._who = who
        self._progress = progress
        self._cancel = cancel
        self._beat_s = beat_s
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watcher", daemon=True)

    def start(self) -> None:
        """Beat once, and look at the flag, before anything is read; then go on by itself."""
        self._is_cancelled = self._look()
        self._thread.start()

    def end(self) -> None:
        """Beat for the last time."""
        self._ended.set()
        self._thread.join()
        self._beat(ended=True)

    def _watch(self) -> None:
        while not self._is_cancelled and not self._ended.wait(self._beat_s):
            self._is_cancelled = self._look()

    def _look(self) -> bool:
        self._beat()
        try:
            is_cancelled = self._table.flag(self._tag, layout.CANCELLED) is not None
        except RecordsUnavailableError:
            return False
        if is_cancelled:
            self._cancel()
        return is_cancelled

    def _beat(self, *, ended: bool = False) -> None:
        try:
            self._table.beat(self._tag, self._who, self._progress(), ended=ended)
        except RecordsUnavailableError:
            return  # no sign of life for a second
