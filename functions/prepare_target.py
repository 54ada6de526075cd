"""Task `PrepareTarget`: take the target's lease and make the store ready."""

from stepbench.contracts.tasks import PrepareTargetInput
from stepbench.services import observed_handler
from stepbench.stages.prepare_target import prepare_target

handler = observed_handler(prepare_target, PrepareTargetInput)
