"""Task `AwaitTarget`: send canaries until the trigger is proved to deliver."""

from stepbench.contracts.tasks import AwaitTargetInput
from stepbench.services import observed_handler
from stepbench.stages.await_target import await_target

handler = observed_handler(await_target, AwaitTargetInput)
