"""
The trial's clocks: receivers against writers, how far they drifted, and the samples by which trials check clocks.

Caveats name a clock whose offset is unknown or changed, and events that were to be timed by one clock and were not.

Small windows' values are kept one by one, since a later comparison of two trials needs them.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stepbench.analysis.latency import NS_PER_MS, after_ack
from stepbench.contracts.chart_data import WindowSample
from stepbench.contracts.experiment import measure_of
from stepbench.contracts.findings import Clock
from stepbench.contracts.result import Caveat
from stepbench.contracts.target import DynamoDbTarget
from stepbench.digits import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from stepbench.analysis.evidence import Evidence
    from stepbench.analysis.findings import Findings
    from stepbench.analysis.windows import MeasuredWindow
    from stepbench.records.formats.columns import ColumnFile
    from stepbench.records.formats.t4_items import T4Item
    from stepbench.records.join.joined import Joined

MAX_EVENTS = 1_000
_ROLES = ("writer", "receiver")
DRIFT_NS = 100_000
"""A clock that moved by more than this beside its bound is worth a word: a tenth of the fastest store's median."""

OFFSET_MS = 10
"""Clocks that are kept by NTP are surely not so far apart: one of them has been set, or is kept by nobody."""


class SandboxOffset(NamedTuple):
    """One sandbox's clock is off the reference: the truth lies within `offset_ns` ± `bound_ns`."""

    offset_ns: int
    bound_ns: int


def measure_clock(evidence: Evidence) -> Clock:
    """Return the offset of receivers' clocks against writers', or that it is unmeasured."""
    sides = {
        role: [SandboxOffset(c.offset_ns, c.bound_ns) for c in evidence.clocks if c.role == role] for role in _ROLES
    }
    offset = offset_between(sides["receiver"], sides["writer"])
    if offset is None:
        missing = " and ".join(f"{role}s" for role in _ROLES if not sides[role])
        return Clock(offset_ms=None, bound_ms=None, text=f"offset unmeasured: no reading from {missing}")
    offset_ms, bound_ms = (each_ns / NS_PER_MS for each_ns in offset)
    sandboxes = {role: len({c.sandbox for c in evidence.clocks if c.role == role}) for role in _ROLES}
    text = (
        f"receivers' clocks minus writers' clocks: {offset_ms:+.3f} ms ± {bound_ms:.3f} ms, for every pair of "
        f"{' and '.join(counted(sandboxes[role], role) for role in ('receiver', 'writer'))}; "
        "latencies that end at t4 are not corrected by it"
    )
    return Clock(offset_ms=offset_ms, bound_ms=bound_ms, text=text)


def drift_ns(evidence: Evidence) -> int:
    """Return the most that a writer's clock left its anchor, or that a sandbox's surely moved against the reference."""
    anchors = [abs(file.header.drift_ns) for file in evidence.records.files if file.header.drift_ns is not None]
    by_sandbox: dict[tuple[str, str], list[SandboxOffset]] = {}
    for sample in evidence.clocks:
        reading = SandboxOffset(sample.offset_ns, sample.bound_ns)
        by_sandbox.setdefault((sample.role, sample.sandbox), []).append(reading)
    moved = [certain_drift_ns(readings) for readings in by_sandbox.values()]
    return max([0, *anchors, *moved])


def window_samples(evidence: Evidence, windows: Sequence[MeasuredWindow]) -> tuple[WindowSample, ...]:
    """Return the samples of DynamoDB's small windows, since pairs of its trials may check clocks."""
    plan = evidence.spec.offered
    if not isinstance(plan.target, DynamoDbTarget) or not measure_of(plan.experiment).arrives:
        return ()
    same = find_same_sandbox(evidence)
    return tuple(_sample(evidence, window, same) for window in windows if 0 < window.n <= MAX_EVENTS)


def offset_between(receivers: Sequence[SandboxOffset], writers: Sequence[SandboxOffset]) -> tuple[float, float] | None:
    """
    Return the hull of all pairs' offsets in ns: its middle, and half its width. None if a side is unmeasured.

    Receivers' clocks minus writers': the truth for every pair lies within the hull.

    A pair (r, w) differs by (offset_r - offset_w) ± (bound_r + bound_w), since the bound of the smallest round trip
    is hard: the reference was read somewhere between sending and receiving.

    Source:
        Marzullo & Owicki (1983), ACM SIGOPS Review 19(3) (intervals); RFC 5905, section 8 (offset and round trip).
    """
    if not receivers or not writers:
        return None
    r, w = np.array(receivers, dtype=np.int64), np.array(writers, dtype=np.int64)
    low = int((r[:, 0] - r[:, 1]).min() - (w[:, 0] + w[:, 1]).max())
    high = int((r[:, 0] + r[:, 1]).max() - (w[:, 0] - w[:, 1]).min())
    return (low + high) / 2, (high - low) / 2


def certain_drift_ns(readings: Sequence[SandboxOffset]) -> int:
    """Return by how much one sandbox's clock has surely moved between its readings; 0 if none surely."""
    if not readings:
        return 0
    highest_low = max(reading.offset_ns - reading.bound_ns for reading in readings)
    lowest_high = min(reading.offset_ns + reading.bound_ns for reading in readings)
    return max(0, highest_low - lowest_high)


def find_same_sandbox(evidence: Evidence) -> NDArray[np.bool_] | None:
    """Return for each event if one sandbox wrote and received it; None for a target without `same_sandbox`."""
    target = evidence.spec.offered.target
    if not isinstance(target, DynamoDbTarget) or not target.same_sandbox:
        return None
    return same_sandbox(evidence.records.retained.files, evidence.records.retained.items, evidence.joined)


def same_sandbox(files: Sequence[ColumnFile], items: Iterable[T4Item], joined: Joined) -> NDArray[np.bool_] | None:
    """
    Return for each event whether its writer's sandbox received it; None where no writer recorded a sandbox.

    It is False also for an event that never arrived.

    Args:
        files: whose tokens name the sandbox that wrote: of a target with `same_sandbox`.
        items: whose sandbox received.
        joined: which attempt's row and which arrival stand for an event.
    """
    if not any(file.rows.tokens for file in files):
        return None
    wrote = _writers(files, joined)
    received = _receivers(items, joined)
    return np.array([bool(name) and name == other for name, other in zip(wrote, received, strict=True)], dtype=np.bool_)


def find_unmeasured_clocks(evidence: Evidence, findings: Findings) -> Iterator[Caveat]:
    """Report latencies that compare two clocks whose offset is not known."""
    if findings.clock.offset_ms is None and measure_of(evidence.spec.offered.experiment).arrives:
        one_clock = find_same_sandbox(evidence) is not None
        what = "Response times and lateness" if one_clock else "Latencies that end at t4"
        text = f"{what} compare two clocks, {findings.clock.text}."
        remedy = "Set the stack's clock reference (an SNTP server that functions can reach)."
        if evidence.spec.offered.target.function is not None:
            remedy = (
                "Nothing measures a function's own clock: on AWS take 1 ms for the error. Handler time is by one clock."
            )
        yield Caveat(kind="clock_unmeasured", text=text, remedy=remedy)


def find_clock_drift(evidence: Evidence, findings: Findings) -> Iterator[Caveat]:
    """Report a clock that moved during the trial, and clocks that were surely set to different times before it."""
    clock = findings.clock
    if clock.offset_ms is not None and abs(clock.offset_ms) - (clock.bound_ms or 0) > OFFSET_MS:
        text = f"Latencies that end at t4 are off by {clock.offset_ms:+.3f} ms ± {clock.bound_ms:.3f} ms: so far are "
        text += "receivers' clocks from writers'."
        yield Caveat(kind="clock_drift", text=text, remedy="Keep all clocks by NTP, or subtract the offset by hand.")
    moved_ns = drift_ns(evidence)
    if moved_ns > DRIFT_NS:
        text = f"A clock moved by {moved_ns / 1e6:.3f} ms against its reference or its anchor during the trial."
        yield Caveat(kind="clock_drift", text=text, remedy="Shorten the phases, or subtract the offset by hand.")


def find_other_sandboxes(evidence: Evidence, _findings: Findings) -> Iterator[Caveat]:
    """Report events that one sandbox was to write and to receive, and that another one received."""
    same = find_same_sandbox(evidence)
    if same is None:
        return
    measured = np.array([phase.measured for phase in evidence.spec.offered.phases], dtype=np.bool_)
    due = evidence.joined.arrived & measured[evidence.joined.phase]
    other = int(np.count_nonzero(due & ~same))
    if other:
        of = counted(int(np.count_nonzero(due)), "event")
        text = f"{other} of {of} {'was' if other == 1 else 'were'} not received by the sandbox that wrote them."
        remedy = "Compare clocks by the other events only, or run the trial again: Lambda had replaced the sandbox."
        yield Caveat(kind="other_sandbox", text=text, remedy=remedy)


def _sample(evidence: Evidence, window: MeasuredWindow, same: NDArray[np.bool_] | None) -> WindowSample:
    latency_ms = window.latency_ms()
    return WindowSample(
        window=window.name,
        phase=evidence.spec.offered.phases[window.phase].name,
        length_s=window.length_s,
        at_s=tuple(window.sample(latency_ms).at_s.tolist()),
        latency_ms=_finite(latency_ms),
        after_ack_ms=_finite(window.values_ms(after_ack)),
        same_sandbox=None if same is None else tuple(same[window.acknowledged].tolist()),
    )


def _finite(values_ms: NDArray[np.float64]) -> tuple[float | None, ...]:
    return tuple(value if math.isfinite(value) else None for value in values_ms.tolist())


def _writers(files: Sequence[ColumnFile], joined: Joined) -> list[str]:
    found = [""] * joined.grid.events
    for head, rows in files:
        slot = joined.grid.slot(head.phase, head.writer, head.slice)
        if slot < 0 or not rows.tokens:
            continue
        events = (joined.grid.base[slot] + rows.sequence).tolist()
        for event, token in zip(events, rows.tokens, strict=True):
            if joined.attempt[event] == head.attempt:
                found[event] = token
    return found


def _receivers(items: Iterable[T4Item], joined: Joined) -> list[str]:
    found = [""] * joined.grid.events
    for item in items:
        events = joined.grid.locate(item.entries)
        for event, t4_ns in zip(events.tolist(), item.entries["t4_ns"].tolist(), strict=True):
            if event >= 0 and t4_ns == joined.t4_ns[event]:
                found[event] = item.sandbox
    return found
