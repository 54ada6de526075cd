"""
The jitter that is planted in transfers, each transfer's share of it, and what the server did about it. Pure.

**Time is compressed**: transfer number n is given the moment n hours after `START_NS`, and the bucket is as slow as it
is to be in that hour. Rows are dated by those moments before they are analysed; how long anything takes is real.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from statistics import NormalDist
from typing import NamedTuple

from stepbench.contracts.transfer.plan import MIB
from stepbench_tools.calibration.reference_store.trial import uniforms

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
