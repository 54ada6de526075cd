"""The trials of a reference store, their watchers, and the timer that their deliveries wait for."""

from __future__ import annotations

import heapq
import re
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

from stepbench.drivers.reference.frames import FrameKind, encode_frame
from stepbench.load.timer import best_timer
from stepbench_tools.calibration.reference_store.trial import Due, Trial

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from stepbench.clock import Clock
    from stepbench.contracts.target import ReferenceTarget
    from stepbench.drivers.reference.frames import FramedSocket

SPIN_NS = 40_000
_TAG = re.compile(r"[a-z0-9-]{1,60}")


class RefusedError(Exception):
    """A request is refused; the code is the answer."""


class _Queued(NamedTuple):
    due_ns: int
    order: int
    trial: Trial
    due: Due


class ReferenceStore:
    """The store holds all trials of one server, and the timer that their deliveries wait for."""

    def __init__(self, truth: Path, clock: Clock) -> None:
        self.trials: dict[str, Trial] = {}
        self.watchers: dict[str, set[FramedSocket]] = {}
        self._truth = truth
        self._clock = clock
        self._timer = best_timer(clock, SPIN_NS)
        self._heap: list[_Queued] = []
        self._order = count()

    def configure(self, tag: str, target: ReferenceTarget, seed: int) -> None:
        """
        Make a trial, unless it is there.

        Raises:
            RefusedError: it is there and is to be treated in another way, or the tag is none.
        """
        if not _TAG.fullmatch(tag):
            code = "MalformedTag"
            raise RefusedError(code)
        there = self.trials.get(tag)
        if there is None:
            log = (self._truth / f"{tag}.jsonl").open("a", encoding="utf-8")
            self.trials[tag] = Trial(tag, target, seed, self._clock.now_ns(), log)
        elif (there.target, there.seed) != (target, seed):
            code = "TrialExists"
            raise RefusedError(code)

    def trial(self, tag: str) -> Trial:
        """
        Return a trial.

        Raises:
            RefusedError: there is none.
        """
        if tag not in self.trials:
            code = "NoSuchTrial"
            raise RefusedError(code)
        return self.trials[tag]

    def schedule(self, trial: Trial, due: Due) -> None:
        """Schedule a delivery at its time."""
        queued = _Queued(due.due_ns, next(self._order), trial, due)
        heapq.heappush(self._heap, queued)
        if self._heap[0] is queued:
            self._timer.call_at(due.due_ns, self._ring)

    def watch(self, tag: str, after: int | None, watcher: FramedSocket) -> None:
        """Send what was delivered after a position, and from now on everything."""
        trial = self.trial(tag)
        self.watchers.setdefault(tag, set()).add(watcher)
        if after is not None and trial.deliveries[after:]:
            missed = trial.deliveries[after:]
            data = b"".join(encode_frame(FrameKind.CHANGE, each.position, each.value) for each in missed)
            trial.sent(missed, watcher.send(data))

    def forget(self, watcher: FramedSocket) -> None:
        """Remove a watcher whose connection has ended."""
        for watchers in self.watchers.values():
            watchers.discard(watcher)

    def remove(self, tag: str) -> None:
        """Drop a trial and its watches; its log stays."""
        trial = self.trials.pop(tag, None)
        for watcher in self.watchers.pop(tag, set()):
            watcher.close()
        if trial is not None:
            trial.log.close()
            self._heap = [queued for queued in self._heap if queued.trial is not trial]
            heapq.heapify(self._heap)

    def flush(self) -> None:
        """Bring all logs to their files."""
        for trial in self.trials.values():
            trial.log.flush()

    def close(self) -> None:
        """Deliver nothing more; close all logs."""
        self._timer.close()
        for tag in list(self.trials):
            self.remove(tag)

    def _ring(self) -> None:
        now_ns = self._clock.now_ns()
        by_tag: dict[str, tuple[Trial, list[Due]]] = {}
        while self._heap and self._heap[0].due_ns <= now_ns:
            queued = heapq.heappop(self._heap)
            by_tag.setdefault(queued.trial.tag, (queued.trial, []))[1].append(queued.due)
        for trial, dues in by_tag.values():
            self._deliver(trial, dues, now_ns)
        if self._heap:
            self._timer.call_at(self._heap[0].due_ns, self._ring)

    def _deliver(self, trial: Trial, dues: Sequence[Due], now_ns: int) -> None:
        deliveries = []
        for due in dues:
            due_now, later = trial.deliver(due, now_ns)
            deliveries += due_now
            for each in later:
                self.schedule(trial, each)
        if not deliveries:
            return
        data = b"".join(encode_frame(FrameKind.CHANGE, each.position, each.value) for each in deliveries)
        for watcher in tuple(self.watchers.get(trial.tag, ())):  # one whose connection has ended leaves
            trial.sent(deliveries, watcher.send(data))
