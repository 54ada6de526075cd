"""Task `PrepareTarget`: take the target's lease and make the store ready."""

from stepbench.contracts.tasks import PrepareTargetInput
from stepbench.observability import observed
from stepbench.services import stage_handler
from stepbench.stages.prepare_target import prepare_target

handler = observed(stage_handler(prepare_target, PrepareTargetInput))
