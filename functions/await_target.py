"""Task `AwaitTarget`: send canaries until the trigger is proved to deliver."""

from stepbench.contracts.tasks import AwaitTargetInput
from stepbench.observability import observed
from stepbench.services import stage_handler
from stepbench.stages.await_target import await_target

handler = observed(stage_handler(await_target, AwaitTargetInput))
