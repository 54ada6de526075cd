"""What the functions did: from their REPORT lines, and from what receivers say of themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepbench.contracts.result import Invocations
from stepbench.contracts.target import receiver_of
from stepbench.stats.quantiles import quantile

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from stepbench.analysis.evidence import Evidence
    from stepbench.records.items import Items
    from stepbench.records.report_lines import ReportLine

RECEIVER = "ReceiveEvents"
_NS_PER_MS = 1_000_000


def invocations(evidence: Evidence) -> tuple[Invocations, ...]:
    """One entry per function that ran, by name."""
    lines: dict[str, dict[str, ReportLine]] = {}
    for page in evidence.pages:
        lines.setdefault(page.function, {}).update((line.request_id, line) for line in page.lines)
    items = evidence.records.items
    receiver = receiver_of(evidence.spec.plan.target)
    if receiver == RECEIVER:
        # It serves every trial of the stack: only this trial's invocations count. CheckClock serves one at a time.
        own = items.invocations()
        lines[RECEIVER] = {name: line for name, line in lines.get(RECEIVER, {}).items() if name in own}
    found = (_of_function(name, list(by_id.values())) for name, by_id in sorted(lines.items()) if by_id)
    own_word = (_with_own_word(each, items) if each.function == receiver else each for each in found)
    return tuple(own_word) or _unreported(receiver, items)


def _of_function(name: str, lines: Sequence[ReportLine]) -> Invocations:
    inits = [line.init_ms for line in lines if line.init_ms is not None]
    durations = [line.duration_ms for line in lines]
    return Invocations(
        function=name,
        invocations=len(lines),
        cold_starts=len(inits),
        init_ms_p50=_median(inits),
        init_ms_max=max(inits, default=None),
        duration_ms_p50=_median(durations),
        duration_ms_max=max(durations, default=None),
        billed_ms=sum(line.billed_ms for line in lines),
        max_memory_mb=max((line.max_memory_mb for line in lines if line.max_memory_mb is not None), default=None),
    )


def _with_own_word(reported: Invocations, items: Items) -> Invocations:
    """Where REPORT lines tell no cold starts (emulators), the receivers' own stamps do."""
    cold = [init_ns / _NS_PER_MS for init_ns in items.cold_init_ns().values()]
    if reported.cold_starts >= len(cold):
        return reported
    update = {
        "cold_starts": len(cold),
        "init_ms_p50": _median(cold),
        "init_ms_max": max(cold, default=None),
    }
    return reported.model_copy(update=update)


def _unreported(receiver: str, items: Items) -> tuple[Invocations, ...]:
    requests = len(items.invocations())
    if requests == 0:
        return ()
    return (_with_own_word(Invocations(function=receiver, invocations=requests, cold_starts=0), items),)


def _median(values: Iterable[float]) -> float | None:
    ascending = np.sort(np.array(list(values), dtype=np.float64))
    return quantile(ascending, 0.5) if ascending.size else None
