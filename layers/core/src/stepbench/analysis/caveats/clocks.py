"""Clocks whose offset is unknown or changed, and events that were to be timed by one clock and were not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepbench import digits
from stepbench.analysis.clocks import drift_ns, find_same_sandbox
from stepbench.contracts.measure import measure_of
from stepbench.contracts.result import Caveat

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.analysis.caveats.findings import Findings
    from stepbench.analysis.evidence import Evidence

DRIFT_NS = 100_000
"""A clock that moved by more than this beside its bound is worth a word: a tenth of the fastest store's median."""

OFFSET_MS = 10
"""Clocks that are kept by NTP are surely not so far apart: one of them has been set, or is kept by nobody."""


def find_unmeasured_clocks(evidence: Evidence, findings: Findings) -> Iterator[Caveat]:
    """Report latencies that compare two clocks whose offset is not known."""
    if findings.clock.offset_ms is None and measure_of(evidence.spec.offered.experiment).arrives:
        one_clock = find_same_sandbox(evidence) is not None
        what = "Response times and lateness" if one_clock else "Latencies that end at t4"
        text = f"{what} compare two clocks, {findings.clock.text}."
        remedy = "Set the stack's clock reference (an SNTP server that functions can reach)."
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
    counted = evidence.joined.arrived & measured[evidence.joined.phase]
    other = int(np.count_nonzero(counted & ~same))
    if other:
        of = digits.counted(int(np.count_nonzero(counted)), "event")
        text = f"{other} of {of} {'was' if other == 1 else 'were'} not received by the sandbox that wrote them."
        remedy = "Compare clocks by the other events only, or run the trial again: Lambda had replaced the sandbox."
        yield Caveat(kind="other_sandbox", text=text, remedy=remedy)
