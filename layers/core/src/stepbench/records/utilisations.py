"""What `MeasureUtilisation` has stored; a module of its own, for functions that have no numpy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench.contracts.result import Utilisation
from stepbench.contracts.tasks import TrialRef
from stepbench.records import layout

if TYPE_CHECKING:
    from stepbench.contracts.plan import TrialSpec
    from stepbench.records.run_store import RunStore


def read_utilisations(spec: TrialSpec, runs: RunStore) -> tuple[Utilisation, ...]:
    """Of all phases that have one, in the plan's order."""
    ref = TrialRef(run_id=spec.run_id, trial=spec.index, tag=spec.tag)
    found = (
        runs.find_model(layout.phase_key(ref, index, "utilisation.json"), Utilisation)
        for index, phase in enumerate(spec.plan.phases)
        if phase.probe or phase.uses_found_rate
    )
    return tuple(each for each in found if each is not None)
