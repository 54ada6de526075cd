"""Task `TearDownTarget`: remove what the trial made; at the end release the lease."""

from stepbench.contracts.tasks import TearDownTargetInput
from stepbench.observability import observed
from stepbench.services import stage_handler
from stepbench.stages.tear_down_target import tear_down_target

handler = observed(stage_handler(tear_down_target, TearDownTargetInput))
