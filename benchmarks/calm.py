"""
Rounds for which the machine was there: a virtual machine's host takes its cores away at times, and tells it as steal.

More rounds are measured while there are too few during which it took less than `CALM` of a core; kept are the calmest.
What decides is the host's doing alone: no round's figures are looked at. As many of those kept began with the first as
with the last of what is compared, or one more.
"""

from __future__ import annotations

import statistics
import time
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import psutil
from benchmarks import machine

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

CALM = 0.02
"""Of any core's time under a part of the round, so much may be the host's."""
MOST_TIMES = 2
"""So many times as many rounds as are wanted are measured at most."""

_kept: list[float] = []
_left_out: list[float] = []
"""The host's shares in this benchmark's rounds."""


class _Round(NamedTuple):
    """share: the host's, of the core and under the part that it took most of."""

    share: float
    number: int
    found: tuple[Any, ...]


def calmest(
    wanted: int, parts: Sequence[Callable[[], Any]], stolen_s: Callable[[], Sequence[float]] | None = None
) -> list[tuple[Any, ...]]:
    """
    What the parts of so many rounds have given, in the order in which these were measured; of one round, the first.

    parts: all that a round measures; every other round begins with the last. stolen_s: what the host has taken so far,
    by core.
    """
    stolen_s = stolen_s or _stolen_s
    measured: list[_Round] = []
    while len(measured) < (wanted if wanted == 1 else MOST_TIMES * wanted) and not _are_calm(measured, wanted):
        measured.append(_measured(len(measured), parts, stolen_s))
    kept = sorted((each for some in _halves(measured, wanted) for each in some), key=itemgetter(1))
    _kept.extend(each.share for each in kept)
    _left_out.extend(each.share for each in measured if each not in kept)
    return [each.found for each in kept]


def notes() -> tuple[str, ...]:
    """What a result has to say of it; nothing where the host took next to nothing."""
    if max([*_kept, *_left_out], default=0) < CALM / 2:
        return ()
    usual, worst, left_out = statistics.median(_kept), max(_kept), len(_left_out)
    for_calmer = f"; {left_out:,} of {left_out + len(_kept):,} rounds were left out for calmer ones" if left_out else ""
    shares = f"{usual:.1%} of a core in the median round, {worst:.1%} in the worst"
    return (f"The host of this virtual machine took {shares}{for_calmer}.",)


def _measured(number: int, parts: Sequence[Callable[[], Any]], stolen_s: Callable[[], Sequence[float]]) -> _Round:
    found: dict[int, Any] = {}
    share = 0.0
    for place in sorted(range(len(parts)), reverse=bool(number % 2)):
        before_s, begun_s = stolen_s(), time.monotonic()
        found[place] = parts[place]()
        took_s = time.monotonic() - begun_s
        share = max(share, *((after - before) / took_s for before, after in zip(before_s, stolen_s(), strict=True)))
    return _Round(share, number, tuple(found[place] for place in range(len(parts))))


def _halves(measured: Sequence[_Round], wanted: int) -> tuple[list[_Round], list[_Round]]:
    """The calmest of those that began with the first part, and of those that began with the last."""
    first, last = (sorted(measured[begin::2], key=itemgetter(0, 1)) for begin in (0, 1))
    return first[: wanted - wanted // 2], last[: wanted // 2]


def _are_calm(measured: Sequence[_Round], wanted: int) -> bool:
    kept = [each for some in _halves(measured, wanted) for each in some]
    return len(kept) == wanted and all(each.share <= CALM for each in kept)


def _stolen_s() -> list[float]:
    """Of the cores that load and servers have, or of all."""
    by_core = [float(getattr(each, "steal", 0.0)) for each in psutil.cpu_times(percpu=True)]
    return [by_core[core] for core in machine.cores() if core < len(by_core)] or by_core
