"""Task `CollectLogs`: one page of what the functions' logs say."""

from stepbench.contracts.tasks import CollectLogsInput
from stepbench.observability import observed
from stepbench.services import stage_handler
from stepbench.stages.collect_logs import collect_logs

handler = observed(stage_handler(collect_logs, CollectLogsInput))
