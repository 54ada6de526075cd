"""
The program of `transfer` against what the reference bucket did: times, stalls, and what the analysis finds. Pure.

**Planted** is jitter, of which each transfer has its share. **Time is compressed**: transfer number n is given the
moment n hours after `START_NS`, and the bucket is as slow as it is to be in that hour. Rows are dated by those moments
before they are analysed; how long anything takes is real.

**Truth** of a transfer's time is what the bucket has on record: from when its kernel had the request until it handed
the last piece over. **Measured** is `transfer_ns` of the program's row. An error is measured minus truth, transfer by
transfer.

**Stalls** are compared transfer by transfer. The machine itself can stand still, and the bucket with it: what it has
on record as half a stall or more, without its being planted, may be found, and need not be.

**Findings** are those of `experiments.transfer.analysis`, over rows that are dated by their simulated moments. Each is
set beside the same figure from the bucket's own times.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, replace
from statistics import NormalDist
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stepbench.contracts.transfer.plan import MIB
from stepbench.experiments.transfer.analysis.cells import LEAST_NS, find_stalls
from stepbench.experiments.transfer.analysis.findings import find_transfers
from stepbench.experiments.transfer.analysis.reads import Reads
from stepbench.records.formats.transfer_columns import OK, TransferColumns
from stepbench_tools.calibration.instrument import Calibration, Count, Level, QuantileError
from stepbench_tools.calibration.reference_store.trial import uniforms

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from stepbench.contracts.transfer.result import TransferPair
    from stepbench.contracts.transfer.rows import TransferRow


FILE_MIB = 4
"""The smallest file whose stalls are judged by its own pace."""
FILE_BYTES = FILE_MIB * MIB
PIECE_BYTES = MIB // 4
PIECES = FILE_BYTES // PIECE_BYTES
"""The bucket hands over one after the other, each at its time."""
MIB_PER_S, FIRST_S = 80.0, 0.004
"""The rate of a usual transfer after its first byte, and the wait for that."""
SPREAD = 0.12
"""Deviation of the logarithm of rates within a mode: more than what a busy machine adds, so that it hides it."""
START_NS = 1_704_067_200 * 10**9
"""Monday, 2024-01-01, 00:00 UTC."""
_HOUR_NS = 3_600 * 10**9
_NORMAL = NormalDist()


@dataclass(frozen=True)
class Jitter:
    """
    What is planted; as it stands, nothing but the spread.

    slow_share: of the sandboxes, those with `slow_factor` times the rate. stall_share: of the transfers, those that
    stand still once, for `stall_s`. slow_hour: of the day, UTC, in which the rate is `hour_factor` times what it is.
    """

    slow_share: float = 0.0
    slow_factor: float = 0.2
    stall_share: float = 0.0
    stall_s: float = 2.0
    slow_hour: int | None = None
    hour_factor: float = 0.6


NOTHING = Jitter()
PLANTED = Jitter(slow_share=0.3, stall_share=0.03, slow_hour=14)


class Fate(NamedTuple):
    """One transfer's rate, its wait for the first byte, and for how long it stands still before which piece."""

    slow: bool
    mib_per_s: float
    first_s: float
    stall_s: float = 0.0
    stalled_before: int = 0

    def due_s(self, piece: int) -> float:
        """Return when a piece is to be handed over, from the arrival of the request on."""
        paced_s = self.first_s + piece * PIECE_BYTES / MIB / self.mib_per_s
        return paced_s + (self.stall_s if piece >= self.stalled_before else 0.0)


@dataclass(frozen=True)
class TrueTransfer:
    """
    One request, as the bucket has seen it, by its own clock: ns since the epoch.

    received_at_ns: when its kernel had the request. sent_at_ns: the statement before each piece went into the socket;
    of a transfer that was broken off, before those that did. sent_bytes: what the kernel has taken.
    """

    number: int
    fate: Fate
    received_at_ns: int
    sent_at_ns: tuple[int, ...]
    sent_bytes: int

    @property
    def duration_ns(self) -> int:
        """Return from when the request was there until the last piece was handed over."""
        return self.sent_at_ns[-1] - self.received_at_ns

    @property
    def stood_ns(self) -> int:
        """Return how long the bucket sent nothing, at the longest: planted, or since the machine was busy."""
        before = (self.received_at_ns, *self.sent_at_ns)
        return max(after - earlier for earlier, after in zip(before, self.sent_at_ns, strict=False))

    def line(self) -> str:
        """Return it as JSON, with what was drawn for it and the simulated hour."""
        fields = asdict(self) | {"fate": self.fate._asdict(), "hour": hour_of(self.number)}
        return json.dumps(fields)


def draw_fate(jitter: Jitter, seed: int, number: int) -> Fate:
    """Return the fate of a transfer: the same in every run, and of no other transfer's making."""
    mode, rate, stall, place, first = uniforms(seed, number.to_bytes(8, "big"))
    slow = mode < jitter.slow_share
    factor = jitter.slow_factor if slow else 1.0
    if hour_of(number) == jitter.slow_hour:
        factor *= jitter.hour_factor
    return Fate(
        slow=slow,
        mib_per_s=MIB_PER_S * factor * math.exp(SPREAD * _NORMAL.inv_cdf(rate)),
        first_s=FIRST_S / factor * (0.5 + first),
        stall_s=jitter.stall_s if stall < jitter.stall_share else 0.0,
        stalled_before=int(place * PIECES),
    )


def moment_ns(number: int) -> int:
    """Return a transfer's moment in the simulated span, ns since the epoch: the middle of its hour."""
    return START_NS + number * _HOUR_NS + _HOUR_NS // 2


def hour_of(number: int) -> int:
    """Return the hour of the day of a transfer's moment, UTC."""
    return number % 24


P50_LIMIT_MS = 1.0
P99_LIMIT_MS, P99_LIMIT_SHARE = 25.0, 0.05
"""Where other work competes for the processors, a process that has bytes to read waits for some of their turns."""
LEVEL_LIMIT = 0.02
"""The limit for shares and for ratios of rates."""
_QUANTILES = {"p50": 0.5, "p99": 0.99, "largest": 1.0}
_NS_PER_MS = 1_000_000


class _Both(NamedTuple):
    """Transfers that both know, by number: columns and truth in the same order, and the stalls that were found."""

    columns: TransferColumns
    truth: Sequence[TrueTransfer]
    stalls_ns: Mapping[int, int]


def calibrate_transfers(
    name: str, jitter: Jitter, truth: Sequence[TrueTransfer], rows: Sequence[TransferRow]
) -> Calibration:
    """
    Return how the program and its analysis did in one run.

    Args:
        name: the run's.
        jitter: what was planted.
        truth: what the bucket did, a request each.
        rows: what the program stored.
    """
    columns = _dated(rows)
    both, strangers = _match(columns, truth)
    stalled = [each for each in both.truth if each.fate.stall_s]
    seen = sum(both.stalls_ns.get(each.number, 0) >= each.stood_ns - P99_LIMIT_MS * _NS_PER_MS for each in stalled)
    (pair,) = find_transfers(columns).pairs or (None,)
    return Calibration(
        name=name,
        n=len(both.truth),
        errors=tuple(_errors(both)),
        counts=tuple(_counts(jitter, both, pair)),
        levels=tuple(_levels(jitter, both, pair)),
        stalled=len(stalled),
        stalled_seen=seen,
        out_ms=None,
        back_ms=None,
        strangers=strangers,
    )


def _dated(rows: Sequence[TransferRow]) -> TransferColumns:
    """Return rows as if each transfer had been made at its simulated moment, for which it was due."""
    columns = TransferColumns.of(rows)
    return replace(columns, began_at_ns=columns.due_at_ns)


def _match(columns: TransferColumns, truth: Sequence[TrueTransfer]) -> tuple[_Both, int]:
    """Return what both know of, and how many requests and rows only one of them does, or knows twice."""
    true = {each.number: each for each in truth}
    numbers, first = np.unique(columns.number, return_index=True)
    known = columns.take(first[np.isin(numbers, list(true))])
    matched = [true[number] for number in known.number.tolist()]
    measured = Reads(known).measured
    stalls, lengths = find_stalls(measured), dict[int, int]()
    for number, length_ns in zip(
        measured.columns.number[stalls.reads].tolist(), stalls.length_ns.tolist(), strict=True
    ):
        lengths[number] = max(length_ns, lengths.get(number, 0))
    return _Both(known, matched, lengths), columns.size + len(truth) - 2 * len(matched)


def _errors(both: _Both) -> Iterator[QuantileError]:
    """Yield the transfers that have the quantiles of errors, by their size whichever way they go."""
    chosen = np.nonzero(both.columns.outcome == OK)[0].tolist()
    pairs = [(int(both.columns.transfer_ns[place]), both.truth[place].duration_ns) for place in chosen]
    pairs.sort(key=lambda pair: abs(pair[0] - pair[1]))
    for metric, q in _QUANTILES.items():
        if not pairs:
            return
        measured_ms, truth_ms = (time_ns / _NS_PER_MS for time_ns in pairs[int(q * (len(pairs) - 1))])
        limits_ms = {"p50": P50_LIMIT_MS, "p99": max(P99_LIMIT_MS, P99_LIMIT_SHARE * truth_ms)}
        yield QuantileError.of(f"{metric} error", truth_ms, measured_ms, limits_ms.get(metric))


def _counts(jitter: Jitter, both: _Both, pair: TransferPair | None) -> Iterator[Count]:
    columns, truth = both.columns, both.truth
    whole = (columns.outcome == OK) & (columns.digest_ok == 1)
    sent = np.array([each.sent_bytes for each in truth], np.int64)
    yield Count.of("whole", sent == columns.file_bytes, whole)
    yield Count.of("bytes", sent, columns.received_bytes)
    planted = {each.number for each in truth if each.fate.stall_s}
    excused = {each.number for each in truth if each.stood_ns >= LEAST_NS / 2} - planted
    yield _same("stalls", planted, both.stalls_ns.keys() - excused)
    hours = {level.at for level in pair.hours.levels if level.differs} if pair and pair.hours.found else set[int]()
    yield _same("slow hours", set() if jitter.slow_hour is None else {jitter.slow_hour}, hours)
    modes = 0 if pair is None or pair.modes.p_value is None else len(pair.modes.modes) if pair.modes.found else 1
    for metric, planned, found in (
        ("modes", 2 if jitter.slow_share else 1, modes),
        ("weekdays", 0, int(pair is not None and pair.weekdays.found)),
        ("changes", 0, len(pair.changes) if pair else 0),
    ):
        yield Count(metric=metric, truth=planned, measured=found, differing=abs(found - planned))


def _levels(jitter: Jitter, both: _Both, pair: TransferPair | None) -> Iterator[Level]:
    if not both.truth:
        return
    rates = 1e9 / np.array([each.duration_ns for each in both.truth], np.float64)
    hours = np.array([hour_of(each.number) for each in both.truth], np.int64)
    if jitter.slow_share:
        usual = np.array([not each.fate.stall_s for each in both.truth], np.bool_) & (hours != jitter.slow_hour)
        slow = np.array([each.fate.slow for each in both.truth], np.bool_)
        modes = pair.modes.modes if pair and len(pair.modes.modes) == 2 else None  # noqa: PLR2004 -- slow and fast
        share, ratio = (modes[0].share, modes[0].mib_per_s / modes[1].mib_per_s) if modes else (None, None)
        true_ratio = np.median(rates[usual & slow]) / np.median(rates[usual & ~slow])
        yield Level(metric="share of slow ones", truth=slow[usual].mean(), measured=share, limit=LEVEL_LIMIT)
        yield Level(metric="slow over fast", truth=true_ratio, measured=ratio, limit=LEVEL_LIMIT)
    if jitter.slow_hour is not None:
        logs = np.log(rates / np.median(rates))
        level = pair.hours.levels[jitter.slow_hour].relative if pair else None
        truth = float(np.exp(logs[hours == jitter.slow_hour].mean()))
        yield Level(metric=f"rate at {jitter.slow_hour} h", truth=truth, measured=level, limit=LEVEL_LIMIT)


def _same(metric: str, truth: set[int], measured: set[int]) -> Count:
    return Count(metric=metric, truth=len(truth), measured=len(measured), differing=len(truth ^ measured))
