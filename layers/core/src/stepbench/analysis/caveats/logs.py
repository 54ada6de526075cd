"""Logs that are missing in part."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench.contracts.result import Caveat

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.analysis.caveats.findings import Findings
    from stepbench.analysis.evidence import Evidence


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
