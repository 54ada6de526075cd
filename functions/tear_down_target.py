"""Task `TearDownTarget`: remove what the trial made; at the end release the lease."""

from stepbench.contracts.tasks import TearDownTargetInput
from stepbench.services import observed_handler
from stepbench.stages.tear_down_target import tear_down_target

handler = observed_handler(tear_down_target, TearDownTargetInput)
