"""Task `CollectLogs`: one page of what the functions' logs say."""

from stepbench.contracts.tasks import CollectLogsInput
from stepbench.services import observed_handler
from stepbench.stages.collect_logs import collect_logs

handler = observed_handler(collect_logs, CollectLogsInput)
