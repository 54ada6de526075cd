"""
One trial's records against the truth about it: errors of quantiles, stalls seen, counts exact. Pure.

**Truth** of an event's latency is `delivered_at_ns` - `received_at_ns`, both by the store's clock: how long the store
kept it, as it happened, not as it was planned. **Measured** is t4 - t1. An error is measured minus truth, quantile by
quantile, over the events that were both delivered and seen. On one machine all clocks are one, so it is made of two
hops and nothing else: from the writer's stamp until the store has the bytes in hand (`out`), and from the store's
stamp until the watcher has them (`back`). Each hop holds a system call on either side, the kernel's loopback and the
wait for an event loop: about 0.03 ms on an idle machine. It is not taken off: who measures a store over a network
measures it too, and here it must stay below the limits.

**Counts** are compared event by event, so that two mistakes cannot cancel each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Self

import numpy as np
from pydantic import Field

from stepbench.contracts.base import Contract
from stepbench.model.request import Outcome
from stepbench.stats.quantiles import quantile

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from stepbench.records.join.joined import Joined
    from stepbench_tools.calibration.truth import TrueWrite

Aspect = Literal["times", "counts", "levels", "stalls", "sample"]
"""What is judged apart. times: errors of quantiles. levels: numbers of the analysis. sample: that there was any."""
P50_LIMIT_MS = 0.1
P99_LIMIT_MS, P99_LIMIT_SHARE = 1.0, 0.01
_QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
_NS_PER_MS = 1_000_000
_NEVER = np.iinfo(np.int64).max


class QuantileError(Contract):
    """The error is measured minus truth; the limit is None where none is set."""

    metric: str
    truth_ms: float
    measured_ms: float
    error_ms: float
    limit_ms: float | None

    @classmethod
    def of(cls, metric: str, truth_ms: float, measured_ms: float, limit_ms: float | None) -> Self:
        """Return the error of a number."""
        return cls(
            metric=metric,
            truth_ms=truth_ms,
            measured_ms=measured_ms,
            error_ms=measured_ms - truth_ms,
            limit_ms=limit_ms,
        )

    @property
    def passed(self) -> bool:
        """Return whether the error is within its limit."""
        return self.limit_ms is None or abs(self.error_ms) <= self.limit_ms


class Count(Contract):
    """A count is one column of the accounting; `differing` events make it inexact, whatever the sums."""

    metric: str
    truth: int
    measured: int
    differing: int = Field(description="Events, or transfers, for which the two do not agree.")

    @classmethod
    def of(cls, metric: str, truth: NDArray[np.generic], measured: NDArray[np.generic]) -> Self:
        """Return the sums of two columns of one order, and in how many places they differ."""
        true, ours = truth.astype(np.int64), measured.astype(np.int64)
        differing = int(np.count_nonzero(true != ours))
        return cls(metric=metric, truth=int(true.sum()), measured=int(ours.sum()), differing=differing)

    @property
    def passed(self) -> bool:
        """Return whether the count is exact."""
        return self.truth == self.measured and self.differing == 0


class Level(Contract):
    """A level is a number of the analysis; measured is None where it was not found."""

    metric: str
    truth: float
    measured: float | None
    limit: float

    @property
    def passed(self) -> bool:
        """Return whether it was found, and lies within its limit of the truth."""
        return self.measured is not None and abs(self.measured - self.truth) <= self.limit

    def __str__(self) -> str:
        measured = "nothing" if self.measured is None else f"{self.measured:.3f}"
        return f"{self.metric}: measured {measured}, truth {self.truth:.3f}, limit {self.limit:g}"


class Calibration(Contract):
    """
    The calibration of one trial, or of one run of transfers.

    `n` events were delivered and seen. `stalled` of them the store put off, because it stood still; `stalled_seen` were
    measured with all of that delay. `out_ms` and `back_ms` are the hops' medians. `strangers` are events in the truth
    that the schedule does not have, or transfers that only one side knows of.
    """

    name: str
    n: int
    errors: tuple[QuantileError, ...]
    counts: tuple[Count, ...]
    levels: tuple[Level, ...] = ()
    stalled: int
    stalled_seen: int
    out_ms: float | None
    back_ms: float | None
    strangers: int

    @property
    def exact(self) -> bool:
        """Return whether all counts are exact."""
        return all(count.passed for count in self.counts) and self.strangers == 0

    def failures(self) -> tuple[str, ...]:
        """Return why the instrument does not pass, one sentence each."""
        return tuple(text for _, text in self.failures_by_aspect())

    def failures_by_aspect(self) -> Iterator[tuple[Aspect, str]]:
        """Yield the same sentences, each with what fails by it."""
        for error in self.errors:
            if error.limit_ms is not None and not error.passed:
                yield "times", f"{error.metric}: error {error.error_ms:+.3f} ms, limit {error.limit_ms:.3f} ms"
        for count in self.counts:
            if not count.passed:
                text = f"{count.metric}: measured {count.measured}, truth {count.truth}, {count.differing} differ"
                yield "counts", text
        for level in self.levels:
            if not level.passed:
                yield "levels", str(level)
        if self.stalled_seen < self.stalled:
            missed = self.stalled - self.stalled_seen
            yield "stalls", f"stalls: {missed} of {self.stalled} delayed ones not seen as such"
        if self.strangers:
            yield "counts", f"{self.strangers} of truth and records have no counterpart"
        if not self.n:
            yield "sample", "nothing was measured"


@dataclass(frozen=True)
class _Columns:
    """The truth is in the grid's order; shape (events,). Times 0 and position `_NEVER` where there is none."""

    received_ns: NDArray[np.int64]
    delivered_ns: NDArray[np.int64]
    deliveries: NDArray[np.int64]
    position: NDArray[np.int64]
    stalled: NDArray[np.bool_]
    strangers: int


def calibrate(name: str, joined: Joined, truth: Iterable[TrueWrite], measured: Sequence[bool]) -> Calibration:
    """
    Return the instrument's error in one trial.

    Args:
        name: the trial's.
        joined: what the instrument knows of every scheduled event.
        truth: what the store did.
        measured: by phase, whether it counts; the order of arrivals is looked at over all of them.
    """
    true = _columns(joined, truth)
    among = np.array(measured, dtype=np.bool_)[joined.phase]
    received, delivered = true.received_ns > 0, true.deliveries > 0
    ok = joined.outcome == Outcome.OK
    disorder = _disorder(joined.grid.writer[joined.slot], true.position)
    both = among & delivered & joined.arrived & (joined.t1_ns > 0)
    truth_ns = (true.delivered_ns - true.received_ns)[both]
    measured_ns = (joined.t4_ns - joined.t1_ns)[both]
    limit_ns = np.maximum(P99_LIMIT_MS * _NS_PER_MS, P99_LIMIT_SHARE * truth_ns)
    stalled = true.stalled & delivered & among
    seen = true.stalled[both] & (measured_ns >= truth_ns - limit_ns)
    return Calibration(
        name=name,
        n=int(np.count_nonzero(both)),
        errors=tuple(_errors(truth_ns, measured_ns)),
        counts=(
            Count.of("acknowledged", received[among], ok[among]),
            Count.of("lost", (received & ~delivered)[among], (ok & ~joined.arrived)[among]),
            Count.of(
                "duplicates", np.maximum(true.deliveries - 1, 0)[among], np.maximum(joined.arrivals - 1, 0)[among]
            ),
            Count.of("out_of_order", disorder[among], joined.disorder[among]),
        ),
        stalled=int(np.count_nonzero(stalled)),
        stalled_seen=int(np.count_nonzero(seen)),
        out_ms=_median_ms((true.received_ns - joined.t1_ns)[both]),
        back_ms=_median_ms((joined.t4_ns - true.delivered_ns)[both]),
        strangers=true.strangers,
    )


def _columns(joined: Joined, truth: Iterable[TrueWrite]) -> _Columns:
    size = joined.t0_ns.size
    true = {name: np.zeros(size, np.int64) for name in ("received_ns", "delivered_ns", "deliveries")}
    position, stalled, strangers = np.full(size, _NEVER, np.int64), np.zeros(size, np.bool_), 0
    for write in truth:
        event = _event(joined, write)
        if event is None or true["received_ns"][event]:
            strangers += 1
            continue
        true["received_ns"][event] = write.received_at_ns
        true["delivered_ns"][event] = write.delivered_at_ns or 0
        true["deliveries"][event] = len(write.deliveries)
        position[event] = min(write.deliveries, default=_NEVER)
        stalled[event] = write.stalled
    return _Columns(**true, position=position, stalled=stalled, strangers=strangers)


def _event(joined: Joined, write: TrueWrite) -> int | None:
    """Return the write's number in the grid."""
    if write.event is None:
        return None
    grid, event = joined.grid, write.event
    slot = grid.slot(event.phase, event.writer, event.slice)
    if slot < 0 or event.sequence >= grid.count[slot]:
        return None
    return int(grid.base[slot]) + event.sequence


def _disorder(writer: NDArray[np.int64], position: NDArray[np.int64]) -> NDArray[np.bool_]:
    """
    Find the events that were first delivered after one of the same writer that stands later in the schedule.

    From the definition, one by one, and not as the join does it: else both could be wrong in the same way.
    """
    disorder = np.zeros(position.size, np.bool_)
    latest: dict[int, int] = {}
    for event in np.argsort(position, kind="stable").tolist():
        if position[event] == _NEVER:
            break
        one = int(writer[event])
        disorder[event] = event < latest.get(one, -1)
        latest[one] = max(event, latest.get(one, -1))
    return disorder


def _errors(truth_ns: NDArray[np.int64], measured_ns: NDArray[np.int64]) -> Iterable[QuantileError]:
    if truth_ns.size == 0:
        return
    truth, measured = (np.sort(times_ns) / _NS_PER_MS for times_ns in (truth_ns, measured_ns))
    for metric, q in _QUANTILES.items():
        truth_ms, measured_ms = quantile(truth, q), quantile(measured, q)
        limits_ms = {"p50": P50_LIMIT_MS, "p99": max(P99_LIMIT_MS, P99_LIMIT_SHARE * truth_ms)}
        yield QuantileError.of(metric, truth_ms, measured_ms, limits_ms.get(metric))


def _median_ms(times_ns: NDArray[np.int64]) -> float | None:
    return float(np.median(times_ns)) / _NS_PER_MS if times_ns.size else None
