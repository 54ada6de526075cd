"""
What the reference store does with each write: drawn from the plan's seed and the event's identity alone. Pure.

The identity without the trial's tag, so that the same plan has the same fates in every run, in whatever order the
writes come, and everything can be known before the store is started.
"""

from __future__ import annotations

import hashlib
import math
import struct
from statistics import NormalDist
from typing import TYPE_CHECKING, assert_never

from stepbench.calibration.truth import Fate
from stepbench.contracts.identity import CANARY_PHASE, EVENT_ID_CHARS, TAG_CHARS, parse_event_id
from stepbench.contracts.target import BimodalDelay, ConstantDelay, ParetoDelay, StallDelay

if TYPE_CHECKING:
    from stepbench.contracts.target import Delay, ReferenceTarget

LONGEST_NS = 10_000_000_000
"""Where a heavy tail is cut."""
_NS_PER_MS = 1_000_000
_SCATTER = NormalDist(1.0, 0.02)
_DRAWS = struct.Struct("!5Q")


def draw_fate(target: ReferenceTarget, seed: int, event: bytes) -> Fate:
    """
    The fate of a write.

    Args:
        target: with the distribution and the shares.
        seed: the plan's.
        event: the head of the value, 40 bytes. Canaries are delayed like all others, and delivered once for certain.
    """
    drop, duplicate, reorder, first, second = _uniforms(seed, event[TAG_CHARS:])
    delay_ns = _delay_ns(target.delay, first, second)
    if _is_canary(event):
        return Fate(delay_ns)
    dropped = drop < target.drop_share
    return Fate(
        delay_ns,
        dropped=dropped,
        duplicated=not dropped and duplicate < target.duplicate_share,
        reordered=not dropped and reorder < target.reorder_share,
    )


def stall_end_ns(delay: Delay, since_ns: int, due_ns: int) -> int:
    """
    When a delivery can be made: when it is due or, in a stall, at its end.

    Stalls begin at whole multiples of `every_s` after `since_ns`, from the first multiple on.
    """
    if not isinstance(delay, StallDelay):
        return due_ns
    every_ns, stall_ns = round(delay.every_s * 1e9), round(delay.stall_ms * _NS_PER_MS)
    number, into_ns = divmod(due_ns - since_ns, every_ns)
    return due_ns + stall_ns - into_ns if number > 0 and into_ns < stall_ns else due_ns


def _delay_ns(delay: Delay, first: float, second: float) -> int:
    match delay:
        case ConstantDelay():
            return round(delay.ms * _NS_PER_MS)
        case BimodalDelay():
            mode_ms = delay.high_ms if first < delay.high_share else delay.low_ms
            return max(0, round(mode_ms * _SCATTER.inv_cdf(second) * _NS_PER_MS))
        case ParetoDelay():
            # P(delay > x) = (scale / x) ** shape; `first` is above 0.
            return min(LONGEST_NS, round(delay.scale_ms * math.pow(first, -1 / delay.shape) * _NS_PER_MS))
        case StallDelay():
            return round(delay.base_ms * _NS_PER_MS)
        case _ as unreachable:
            assert_never(unreachable)


def _uniforms(seed: int, identity: bytes) -> tuple[float, ...]:
    """Five numbers in (0, 1), independent for all that anybody could tell."""
    digest = hashlib.blake2b(identity, key=seed.to_bytes(8, "big"), digest_size=_DRAWS.size).digest()
    return tuple(((word >> 11) + 0.5) / 2**53 for word in _DRAWS.unpack(digest))


def _is_canary(event: bytes) -> bool:
    parsed = parse_event_id(event[:EVENT_ID_CHARS].decode("ascii", "replace"))
    return parsed is not None and parsed.phase == CANARY_PHASE
