"""What was measured in place of the store or the trigger that the plan names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench.contracts.result import Caveat
from stepbench.contracts.target import DynamoDbTarget

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.analysis.caveats.findings import Findings
    from stepbench.analysis.evidence import Evidence


def find_emulated_store(evidence: Evidence, _findings: Findings) -> Iterator[Caveat]:
    """Report a store that something else plays."""
    if evidence.emulated:
        text = (
            f"{evidence.spec.plan.target.store} is played by {evidence.provider}: its latencies say nothing about AWS."
        )
        yield Caveat(kind="emulated", text=text, remedy="Run the plan on AWS (sam deploy).")


def find_filter(evidence: Evidence, _findings: Findings) -> Iterator[Caveat]:
    """Report a filter on a stream, whose events are not told apart from lost ones."""
    target = evidence.spec.plan.target
    if isinstance(target, DynamoDbTarget) and target.filter is not None:
        text = "A filter holds events back, which count as not arrived."
        yield Caveat(kind="filtered", text=text, remedy="Compare `lost` with what the filter should hold back.")


def find_ignored_batching_window(evidence: Evidence, _findings: Findings) -> Iterator[Caveat]:
    """Report a batching window that an emulator does not keep."""
    target = evidence.spec.plan.target
    if isinstance(target, DynamoDbTarget) and target.batching_window_s and evidence.emulated:
        text = f"{evidence.provider} ignores the batching window of {target.batching_window_s} s."
        yield Caveat(kind="batching_window_ignored", text=text, remedy="Measure batching windows on AWS.")
