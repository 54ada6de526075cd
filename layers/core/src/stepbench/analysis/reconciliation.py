"""
The receivers' log is a second source, against which the results table is checked.

Numbers come from the table alone. What only the log knows is counted here, and never merged into them.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stepbench.contracts.result import Caveat
from stepbench.digits import counted
from stepbench.records.formats.t4 import ENTRY, Entry
from stepbench.records.formats.t4_lines import is_logged

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepbench.analysis.evidence import Evidence
    from stepbench.analysis.findings import Findings
    from stepbench.records.formats.t4_items import T4Item
    from stepbench.records.formats.t4_lines import T4Line

_SHOWN = 3


class Sighting(NamedTuple):
    """It names one arrival by everything but its times."""

    request_id: str
    entry: Entry
    """With times 0."""
    token: str

    def __str__(self) -> str:
        each = self.entry
        where = f"phase {each.phase}, writer {each.writer}, slice {each.slice}, attempt {each.attempt}"
        name = self.token or f"sequence {each.sequence}"
        return f"{name} ({where}) of request {self.request_id}"


@dataclass
class Reconciliation:
    """
    It holds the arrivals in both sources, in one, and in both at different times.

    differences_ns: log minus table, by t4; 0 where only t3 differs.
    """

    agreed: int = 0
    table_only: list[Sighting] = field(default_factory=list)
    log_only: list[Sighting] = field(default_factory=list)
    differing: list[Sighting] = field(default_factory=list)
    differences_ns: list[int] = field(default_factory=list)


def reconcile(items: Sequence[T4Item], lines: Sequence[T4Line], log_t4: str) -> Reconciliation:
    """
    Compare the two sources arrival by arrival.

    Args:
        items: all t4 items of the trial.
        lines: all its t4 lines, each once.
        log_t4: the plan's; says which invocations have to be in the log.

    Returns:
        One entry for each arrival of an invocation that is in the log, or has to be. Of one invocation's arrivals of
        the same event, those with equal times belong together, and then the others in order of time.
    """
    logged: defaultdict[str, list[T4Line]] = defaultdict(list)
    for line in lines:
        logged[line.request_id].append(line)
    stored: defaultdict[str, list[T4Item]] = defaultdict(list)
    for item in items:
        if item.arrivals and (item.request_id in logged or is_logged(log_t4, item.request_id)):
            stored[item.request_id].append(item)
    found = Reconciliation()
    for request_id in sorted({*logged, *stored}):
        _compare(request_id, stored.get(request_id, []), logged.get(request_id, []), found)
    return found


def find_log_disagreements(evidence: Evidence, _findings: Findings) -> Iterator[Caveat]:
    """Report where the sources disagree; nothing where the plan asks for one source only."""
    log_t4 = evidence.spec.offered.log_t4
    if log_t4 == "none":
        return
    found = reconcile(evidence.records.retained.items, evidence.t4_lines, log_t4)
    if evidence.collection is None:
        found.table_only.clear()  # reported already: logs were not collected (`missing_logs`)
    parts = list(_describe_differences(found, evidence))
    if evidence.damaged_t4_lines:
        parts.append(f"{len(evidence.damaged_t4_lines)} log lines are cut or garbled: {evidence.damaged_t4_lines[0]}")
    if parts:
        agreed = counted(found.agreed, "arrival")
        text = f"The receivers' log and the results table agree on {agreed}, and not on others. "
        remedy = "The numbers are the table's. Look up the request ids in the receivers' log; run the trial again."
        yield Caveat(kind="log_disagreement", text=text + "; ".join(parts) + ".", remedy=remedy)


def _describe_differences(found: Reconciliation, evidence: Evidence) -> Iterator[str]:
    if found.table_only:
        yield f"Only in the table: {len(found.table_only)}, such as {_examples(found.table_only)}"
    if found.log_only:
        events = evidence.joined.grid.find(sighting.entry for sighting in found.log_only)
        lost = int(np.count_nonzero(evidence.lost[events]))
        yield (
            f"Only in the log, and in no number here: {len(found.log_only)}, of which {lost} are of events that count"
            f" as lost, such as {_examples(found.log_only)}"
        )
    if found.differing:
        largest_ms = max(map(abs, found.differences_ns)) / 1e6
        yield (
            f"In both at different times: {len(found.differing)}, by {largest_ms:.6f} ms at most,"
            f" such as {_examples(found.differing)}"
        )


def _examples(sightings: Sequence[Sighting]) -> str:
    more = ", …" if len(sightings) > _SHOWN else ""
    return ", ".join(map(str, sightings[:_SHOWN])) + more


def _compare(request_id: str, items: Sequence[T4Item], lines: Sequence[T4Line], found: Reconciliation) -> None:
    in_order = sorted(lines, key=lambda line: (line.t4_ns, line.part))
    packed = b"".join(item.entries.tobytes() for item in items), b"".join(line.entries for line in in_order)
    tokens = [token for item in items for token in item.tokens], [token for line in in_order for token in line.tokens]
    if packed[0] == packed[1] and tokens[0] == tokens[1]:
        found.agreed += len(packed[0]) // ENTRY.size
        return
    table = _times(request_id, ((item.entries.tobytes(), item.tokens) for item in items))
    log = _times(request_id, ((line.entries, line.tokens) for line in in_order))
    for sighting in {**table, **log}:
        _match(sighting, table.get(sighting, []), log.get(sighting, []), found)


def _times(request_id: str, packs: Iterator[tuple[bytes, tuple[str, ...]]]) -> dict[Sighting, list[tuple[int, int]]]:
    """Return (t4, t3) of each arrival by what names it, in order."""
    times: defaultdict[Sighting, list[tuple[int, int]]] = defaultdict(list)
    for packed, tokens in packs:
        for number, entry in enumerate(map(Entry._make, ENTRY.iter_unpack(packed))):
            name = entry._replace(t4_ns=0, t3_ns=0)
            times[Sighting(request_id, name, tokens[number] if tokens else "")].append((entry.t4_ns, entry.t3_ns))
    return {sighting: sorted(each) for sighting, each in times.items()}


def _match(sighting: Sighting, table: list[tuple[int, int]], log: list[tuple[int, int]], found: Reconciliation) -> None:
    for time in list(table):
        if time in log:
            table.remove(time)
            log.remove(time)
            found.agreed += 1
    pairs = min(len(table), len(log))
    found.differing += [sighting] * pairs
    found.differences_ns += [log[place][0] - table[place][0] for place in range(pairs)]
    found.table_only += [sighting] * (len(table) - pairs)
    found.log_only += [sighting] * (len(log) - pairs)
