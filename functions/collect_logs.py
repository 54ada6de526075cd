"""Task `CollectLogs`: one page of what the functions' logs say."""

from stepbench.contracts.tasks import CollectLogsInput
from stepbench.observability import observed
from stepbench.stages.collect_logs import collect_logs
from stepbench.stages.services import stage_handler

handler = observed(stage_handler(collect_logs, CollectLogsInput))
