"""A trial's rows, as the stages read them that write."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench.contracts.experiment import traits_of
from stepbench.contracts.values import form_of, names_content

if TYPE_CHECKING:
    from stepbench.contracts.plan import TrialSpec
    from stepbench.services import Services
    from stepbench.workload.values import PreparedValues

_latest: dict[tuple[str, ...], PreparedValues] = {}
"""The rows that this sandbox read last, by their content and what else they depend on: slices and polls come again."""


def trial_values(spec: TrialSpec, services: Services) -> PreparedValues | None:
    """
    Return the rows that a trial's events write, as its store takes them; None where they write filler.

    Raises:
        RecordsUnavailableError: their file is gone, or cannot be read.
    """
    values = spec.offered.record.values if traits_of(spec.plan.experiment).by_trigger else None
    if values is None or values.key is None:
        _latest.clear()  # a trial of filler has the sandbox's memory to itself
        return None
    from stepbench.workload.values import prepare_values  # noqa: PLC0415 -- no trial of filler waits for it

    depends = (values.key, spec.offered.record.model_dump_json(), spec.offered.target.model_dump_json())
    if (known := _latest.get(depends)) is not None:
        return known
    _latest.clear()  # before the next are read: a sandbox holds one at a time
    found = prepare_values(spec.offered, services.runs.get_bytes(values.key), form_of(values.key))
    if names_content(values.key):
        _latest[depends] = found
    return found
