"""
The spans in which nobody watched, and which watch delivered what had happened in each of them.

A watch begins when it is established, and again whenever its process goes on after it had stood still. If no other
watch runs at that moment, nobody has seen what was acknowledged before: the watch delivers it afterwards, and its
latency is that of the watch's absence, not of the store. Where lanes overlap, as they do when they hand over, there is
no gap.
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepbench.records.storage.layout import Watch


class WatchGap(NamedTuple):
    """
    A span in which nobody watched, ns since the epoch.

    Events are in it that were acknowledged by `to_ns` and that the watch of this sandbox delivered from `from_ns` on,
    or any watch after `to_ns`: two that stood still go on one after the other.
    """

    sandbox: str
    from_ns: int
    to_ns: int


class _Stretch(NamedTuple):
    """A span in which a watch surely ran."""

    sandbox: str
    from_ns: int
    to_ns: int


def find_watch_gaps(watches: Sequence[Watch]) -> tuple[WatchGap, ...]:
    """Return the gaps between the first watch's start and the last one's, by time."""
    stretches = sorted((each for watch in watches for each in _stretches(watch)), key=lambda each: each.from_ns)
    watched_to_ns = accumulate((each.to_ns for each in stretches), max)
    return tuple(
        WatchGap(begun.sandbox, before_ns, begun.from_ns)
        for before_ns, begun in zip(watched_to_ns, stretches[1:], strict=False)
        if before_ns < begun.from_ns
    )


def _stretches(watch: Watch) -> list[_Stretch]:
    """Return the stretches between a watch's pauses; its last sign of life may have been in one."""
    begins = (watch.established_ns, *(to_ns for _, to_ns in watch.pauses_ns))
    ends = (*(from_ns for from_ns, _ in watch.pauses_ns), watch.alive_ns)
    return [
        _Stretch(watch.sandbox, begin_ns, max(begin_ns, end_ns)) for begin_ns, end_ns in zip(begins, ends, strict=True)
    ]
