"""Task `ExportRecords`: a trial's rows as files for other programs, `records.parquet` and what its experiment adds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench.experiments.registry import experiment_of

if TYPE_CHECKING:
    from stepbench.contracts.tasks import ExportRecordsInput, ExportRecordsOutput
    from stepbench.services import Services


def export_records(task: ExportRecordsInput, services: Services) -> ExportRecordsOutput:
    """
    Write the files.

    Raises:
        AccountingError: the records contradict each other.
        RecordsUnavailableError: bucket or table do not answer.
    """
    spec = services.trial(task.ref)
    return experiment_of(spec.plan.experiment).export(spec, task.failure, services.runs, services.table)
