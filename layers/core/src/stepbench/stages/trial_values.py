"""A trial's rows, as the stages read them that write."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench.contracts.experiment import traits_of
from stepbench.planning.values import form_of
from stepbench.workload.values import prepare_values

if TYPE_CHECKING:
    from stepbench.contracts.plan import TrialSpec
    from stepbench.services import Services
    from stepbench.workload.values import PreparedValues


def trial_values(spec: TrialSpec, services: Services) -> PreparedValues | None:
    """
    Return the rows that a trial's events write, as its store takes them; None where they write filler.

    Raises:
        RecordsUnavailableError: their file is gone, or cannot be read.
    """
    values = spec.offered.record.values if traits_of(spec.plan.experiment).by_trigger else None
    if values is None or values.key is None:
        return None
    return prepare_values(spec.offered, services.runs.get_bytes(values.key), form_of(values.key))
