"""Task `AwaitTarget`: send canaries until the trigger is proved to deliver."""

from stepbench.contracts.tasks import AwaitTargetInput
from stepbench.observability import observed
from stepbench.stages.await_target import await_target
from stepbench.stages.services import stage_handler

handler = observed(stage_handler(await_target, AwaitTargetInput))
