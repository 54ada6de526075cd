"""A store that something else plays."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench.contracts.result import Caveat

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.analysis.caveats.findings import Findings
    from stepbench.analysis.evidence import Evidence


def find_emulated_store(evidence: Evidence, _findings: Findings) -> Iterator[Caveat]:
    """Report a store that something else plays."""
    if evidence.served.emulated:
        store = evidence.spec.offered.target.store
        functions = evidence.served.stand_ins.get("lambda")
        played = f"{store} is played by {evidence.served.provider}"
        how = f"{store}'s events end in functions of {functions}" if functions else played
        text = f"{how}: its latencies say nothing about AWS."
        yield Caveat(kind="emulated", text=text, remedy="Run the plan on AWS (sam deploy).")
