"""The trial's clocks: receiver against writer, with a bound, and how far they drifted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench.contracts.result import Clock
from stepbench.stats.clocks import Reading, certain_drift_ns, offset_between

if TYPE_CHECKING:
    from stepbench.analysis.evidence import Evidence

_NS_PER_MS = 1_000_000


def clock(evidence: Evidence) -> Clock:
    """Receiver minus writer, or that it is unmeasured."""
    sides = {role: [Reading(c.offset_ns, c.bound_ns) for c in evidence.clocks if c.role == role] for role in _ROLES}
    offset = offset_between(sides["receiver"], sides["writer"])
    if offset is None:
        missing = " and ".join(f"{role}s" for role in _ROLES if not sides[role])
        return Clock(offset_ms=None, bound_ms=None, text=f"offset unmeasured: no reading from {missing}")
    offset_ms, bound_ms = offset.offset_ns / _NS_PER_MS, offset.bound_ns / _NS_PER_MS
    text = (
        f"receivers' clocks minus writers' clocks: {offset_ms:+.3f} ms ± {bound_ms:.3f} ms, for every pair of "
        f"{_sandboxes(evidence, 'receiver')} receivers and {_sandboxes(evidence, 'writer')} writers; "
        "latencies that end at t4 are not corrected by it"
    )
    return Clock(offset_ms=offset_ms, bound_ms=bound_ms, text=text)


_ROLES = ("writer", "receiver")


def drift_ns(evidence: Evidence) -> int:
    """The most that a writer's clock went off its anchor, or that any sandbox's surely moved against the reference."""
    anchors = [abs(file.header.drift_ns) for file in evidence.records.files if file.header.drift_ns is not None]
    by_sandbox: dict[str, list[Reading]] = {}
    for sample in evidence.clocks:
        by_sandbox.setdefault(f"{sample.role}#{sample.sandbox}", []).append(Reading(sample.offset_ns, sample.bound_ns))
    moved = [certain_drift_ns(readings) for readings in by_sandbox.values()]
    return max([0, *anchors, *moved])


def _sandboxes(evidence: Evidence, role: str) -> int:
    return len({sample.sandbox for sample in evidence.clocks if sample.role == role})
