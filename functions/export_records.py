"""Task `ExportRecords`: the trial's records as one Parquet file."""

from stepbench.contracts.tasks import ExportRecordsInput
from stepbench.observability import observed
from stepbench.services import stage_handler
from stepbench.stages.export_records import export_records

handler = observed(stage_handler(export_records, ExportRecordsInput))
