"""A machine that was slow for spells at a time, as a look before the load has seen it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench.analysis.caveats.saturation import LITTLE_CPU
from stepbench.analysis.functions import generator_cpu
from stepbench.analysis.slow_spells import SLOW_MACHINE, describe_slow_spells
from stepbench.contracts.result import Caveat

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.analysis.caveats.findings import Findings
    from stepbench.analysis.evidence import Evidence
    from stepbench.contracts.findings import SlowSpells


def name_this_machine(found: SlowSpells | None) -> Iterator[Caveat]:
    """Report slow spells of the machine that all of a local run shares."""
    if found is not None and found.matter:
        remedy = "Close what else runs, let the machine cool, or use another one; then run it again."
        yield Caveat(kind=SLOW_MACHINE, text=f"{describe_slow_spells(found)}.", remedy=remedy)


def find_slow_machine(evidence: Evidence, findings: Findings) -> Iterator[Caveat]:
    """
    Report slow spells of the machine.

    Of a sandbox that writers have to themselves, only windows in which one used half of the CPU that it can get: the
    look takes all of it, and is stopped by a quota that a writer with little to do never meets.
    """
    found = evidence.slow_spells
    if found is None or not found.matter:
        return
    if not any(file.header.slow_spells for file in evidence.records.files):
        yield from name_this_machine(found)
        return
    used = [generator_cpu(evidence, window.phase) for window in findings.measured_windows]
    about = tuple(at for at, share in enumerate(used) if share is None or share >= LITTLE_CPU)
    if about:
        text = describe_slow_spells(found, "The writers' sandboxes") + "."
        remedy = "Give writers 1,769 MB or more (the stack's MeasuredMemorySize), or use more of them."
        yield Caveat(kind=SLOW_MACHINE, text=text, remedy=remedy, windows=about)
