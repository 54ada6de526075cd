"""
Rounds for which the machine was there: a virtual machine's host takes its cores away at times, and tells it as steal.

A round during which it took more than `CALM` of them is measured again, a few times; kept are the calmest. What decides
is the host's doing alone, the same for ours and for the peer: no round's figures are looked at.
"""

from __future__ import annotations

import os
import statistics
import time
from typing import TYPE_CHECKING, TypeVar

import psutil

if TYPE_CHECKING:
    from collections.abc import Callable

CALM = 0.02
"""Of all cores' time, so much may be the host's."""
MOST_TIMES = 2
"""So many times as many rounds as are wanted are measured at most."""

RoundT = TypeVar("RoundT")
_kept: list[float] = []
_measured: list[float] = []
"""The host's shares, of this benchmark's rounds."""


def calmest(wanted: int, once: Callable[[int], RoundT], stolen_s: Callable[[], float] | None = None) -> list[RoundT]:
    """
    So many rounds, in the order in which they were measured; a single one is measured but once.

    once: measures the round with this number. stolen_s: what the host has taken so far, of all cores.
    """
    stolen_s = stolen_s or _stolen_s
    measured: list[tuple[float, int, RoundT]] = []
    while len(measured) < (wanted if wanted == 1 else MOST_TIMES * wanted):
        before_s, begun_s = stolen_s(), time.monotonic()
        found = once(len(measured))
        share = (stolen_s() - before_s) / ((time.monotonic() - begun_s) * (os.cpu_count() or 1))
        measured.append((share, len(measured), found))
        if sum(share <= CALM for share, *_ in measured) == wanted:
            break
    kept = sorted(sorted(measured, key=lambda each: each[:2])[:wanted], key=lambda each: each[1])
    _measured.extend(share for share, *_ in measured)
    _kept.extend(share for share, *_ in kept)
    return [found for *_, found in kept]


def notes() -> tuple[str, ...]:
    """What a result has to say of it; nothing where the host took next to nothing."""
    if not _kept or max(_measured) < CALM / 2:
        return ()
    again = len(_measured) - len(_kept)
    repeated = f"; {again:,} of {len(_measured):,} rounds, in which it took more, were measured again" if again else ""
    usual, worst = statistics.median(_kept), max(_kept)
    shares = f"{usual:.1%} of the cores in the median round, {worst:.1%} in the worst"
    return (f"The host of this virtual machine took {shares}{repeated}.",)


def _stolen_s() -> float:
    return float(getattr(psutil.cpu_times(), "steal", 0.0))
