"""A trial of `transfer` as files: Parquet and NDJSON beside its result, and its part of a dataset. `ExportRecords`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench.contracts.runs import RunRequest
from stepbench.contracts.tasks import ExportRecordsOutput
from stepbench.records.formats.transfer_lines import format_lines
from stepbench.records.storage import layout, transfer_datasets
from stepbench.records.storage.run_store import find_served
from stepbench.records.storage.transfer_datasets import encode_transfers
from stepbench.records.storage.transfers import first_attempts, put_published, read_transfers

if TYPE_CHECKING:
    from stepbench.contracts.plan import TrialSpec
    from stepbench.contracts.tasks import StateError
    from stepbench.records.storage.run_store import RunStore
    from stepbench.records.storage.trial_table import TrialTable

NDJSON = "transfers.ndjson"


def export(
    spec: TrialSpec,
    failure: StateError,  # noqa: ARG001 -- rows are what they are
    runs: RunStore,
    table: TrialTable,  # noqa: ARG001
) -> ExportRecordsOutput:
    """
    Write the rows of all attempts beside the result, and those that count into the plan's dataset, as the run's team's.

    With these go the published numbers of the plan, so that each report of the dataset has them.

    Raises:
        RecordsUnavailableError: the bucket does not answer.
    """
    rows = read_transfers(spec.ref, runs)
    served = find_served(spec.ref, runs)
    stand_ins = served.stand_ins if served else {}
    key = layout.trial_key(spec.ref, "records.parquet")
    runs.put_bytes(key, encode_transfers(rows, stand_ins), "application/vnd.apache.parquet")
    lines = format_lines(rows).encode()
    runs.put_bytes(layout.trial_key(spec.ref, NDJSON), lines, "application/x-ndjson")
    if (dataset := spec.transfer.dataset) is not None:
        team = runs.get_model(layout.run_key(spec.run_id, "request.json"), RunRequest).team
        transfer_datasets.append(dataset, team, first_attempts(rows)[0], runs, stand_ins)
        put_published(dataset, team, spec.transfer.published, runs)
    return ExportRecordsOutput(key=key, rows=len(rows))
