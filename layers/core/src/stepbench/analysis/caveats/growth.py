"""Latency that rises or falls all through a window: a queue that grows, or a drift."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from stepbench.contracts.result import Caveat
from stepbench.digits import count, latency, rate
from stepbench.stats.trend import ENDS_WORDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.analysis.backlog import Backlog
    from stepbench.analysis.caveats.findings import Findings
    from stepbench.analysis.evidence import Evidence

_SUBJECTS = {"trigger": "the trigger", "operations": "operations", "dataflow": "executions"}
_MORE = {
    "the trigger": "give the trigger more: larger batches, more shards or concurrency, more memory",
    "operations": "give more to the store, or to the writers where they are late by themselves",
    "executions": "give the functions and the store of the DAG more",
}
_OF_ENDS = f"medians of its first and last {ENDS_WORDS}"


def find_growth(evidence: Evidence, findings: Findings) -> Iterator[Caveat]:
    """
    Report each window in which events came faster than they were worked through, or else the latency drifted.

    What fell behind has no latency of its own: how long the last one waited depends on how long the load went on.
    """
    for place, window in enumerate(findings.measured_windows):
        if window.backlog:
            yield _fell_behind(window.name, _SUBJECTS[evidence.spec.offered.experiment], window.backlog, place)
        elif window.trend:
            before, after = (latency(1_000 * each_s) for each_s in (window.trend.before, window.trend.after))
            text = (
                f"Window {window.name}: latency {'rose' if window.trend.ratio > 1 else 'fell'} all through it, from "
                f"{before} to {after} ({_OF_ENDS}). Its quantiles are a mix of these, and "
                "depend on how long it is."
            )
            remedy = "Lengthen the warm-up, or give steady times a window of their own; the time line shows when."
            yield Caveat(kind="latency_drift", text=text, remedy=remedy, windows=(place,))


def _fell_behind(window: str, subject: str, found: Backlog, place: int) -> Caveat:
    before = latency(1_000 * found.before_s)
    grew = (
        f"latency grew from {before} (median at first) until most events never came through"
        if math.isinf(found.after_s)
        else f"latency grew from {before} to {latency(1_000 * found.after_s)} ({_OF_ENDS})"
    )
    kept_up = rate(round(found.kept_up_per_s, 1))
    text = (
        f"Window {window}: {subject} fell behind: at this rate the number depends on the run's length. Of "
        f"{rate(round(found.accepted_per_s, 1))} events a second {kept_up} were worked through, so {grew}, and "
        f"{count(round(found.waiting))} more events "
        "waited. It decides no verdict and no regression, and of thresholds on times those alone that it surely misses."
    )
    remedy = f"Offer less than {kept_up}/s, or {_MORE[subject]}."
    return Caveat(kind="fell_behind", text=text, remedy=remedy, windows=(place,))
