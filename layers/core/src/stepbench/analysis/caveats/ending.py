"""What is missing of a trial that failed or was stopped, of writers that ended before their time, and of logs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepbench.analysis.caveats.findings import STOPPED_REMEDY
from stepbench.contracts.result import Caveat
from stepbench.digits import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.analysis.caveats.findings import Findings
    from stepbench.analysis.evidence import Evidence

_SHOWN = 3
_CAUSE_CHARS = 120


def find_incomplete(_evidence: Evidence, findings: Findings) -> Iterator[Caveat]:
    """Report a trial that failed or was stopped."""
    failure = findings.failure
    if failure is None:
        return
    text = f"The trial failed ({failure.error}: {failure.cause[:200]}); what had been recorded until then is shown."
    remedy = "Remove the cause, and run the trial again."
    if findings.cancelled:
        text = f"The run was stopped ({failure.cause[:200]}); what had been recorded until then is shown."
        if cut_off := findings.total("cut_off"):
            text += f" {counted(cut_off, 'acknowledged event')} had not arrived by then: cut off, not lost."
        remedy = STOPPED_REMEDY
    yield Caveat(kind="incomplete", text=text, remedy=remedy)


def find_damaged_files(evidence: Evidence, _findings: Findings) -> Iterator[Caveat]:
    """Report record files that do not decode."""
    if evidence.records.damaged:
        text = f"Record files that do not decode: {len(evidence.records.damaged)}. {evidence.records.damaged[0]}"
        yield Caveat(kind="unrecorded", text=text, remedy="Look at the bucket's object; run the trial again.")


def find_damaged_arrivals(evidence: Evidence, _findings: Findings) -> Iterator[Caveat]:
    """Report stored arrivals that do not decode: what is in them counts as lost, and was not."""
    if damaged := evidence.records.damaged_items:
        text = f"Stored arrivals that do not decode: {len(damaged)}. What is in them counts as lost. {damaged[0]}"
        yield Caveat(kind="lost_events", text=text, remedy="Look at the item, or object; run the trial again.")


def find_missing_writers(evidence: Evidence, findings: Findings) -> Iterator[Caveat]:
    """Report writers that did not run, or did not end in order."""
    missing = _missing_writers(evidence)
    if missing:
        shown = ", ".join(missing[:_SHOWN]) + (", …" if len(missing) > _SHOWN else ".")
        text = f"{counted(len(missing), 'writer')} did not run, or did not end in order: {shown}"
        where = "RunWriter" if evidence.spec.offered.load_from == "lambda" else "the load host"
        remedy = f"See the failed children of OfferLoad's map run, and the log of {where}."
        remedy = STOPPED_REMEDY if findings.cancelled else remedy
        yield Caveat(kind="missing_writer", text=text, remedy=remedy)


def _missing_writers(evidence: Evidence) -> list[str]:
    grid = evidence.joined.grid
    ended = {
        grid.slot(file.header.phase, file.header.writer, file.header.slice)
        for file in evidence.records.files
        if file.header.last
    }
    silent = ((grid.count > 0) | grid.closed) & ~np.isin(np.arange(grid.count.size), list(ended))
    slots = [(int(grid.phase[n]), int(grid.writer[n]), int(grid.slice[n])) for n in np.nonzero(silent)[0].tolist()]
    return [_describe_writer(slot, evidence) for slot in slots]


def _describe_writer(slot: tuple[int, int, int], evidence: Evidence) -> str:
    phase, writer, slice_ = slot
    failure = evidence.missing.get(slot)
    why = f" ({failure.error}: {failure.cause[:_CAUSE_CHARS]})" if failure else ""
    return f"writer {writer} in slice {slice_} of {evidence.spec.offered.phases[phase].name}{why}"


def find_missing_logs(evidence: Evidence, _findings: Findings) -> Iterator[Caveat]:
    """Report invocations that left no REPORT line, or whose logs were not read."""
    collection = evidence.collection
    remedy = "Durations and cold starts come from logs only; the latencies do not."
    if collection is None:
        yield Caveat(kind="missing_logs", text="The functions' logs were not collected.", remedy=remedy)
    elif collection.every > 1:
        text = f"Of the receiver's log every {collection.every}th minute was read; its counts are a sample."
        yield Caveat(kind="missing_logs", text=text, remedy=remedy)
    elif collection.seen < collection.expected:
        missing = collection.expected - collection.seen
        text = f"{missing} of {collection.expected} receiver invocations left no REPORT line."
        yield Caveat(kind="missing_logs", text=text, remedy=remedy)
