"""Task `ExportRecords`: the trial's records as one Parquet file."""

from stepbench.contracts.tasks import ExportRecordsInput
from stepbench.services import observed_handler
from stepbench.stages.export_records import export_records

handler = observed_handler(export_records, ExportRecordsInput)
