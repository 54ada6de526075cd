"""Task `ScaleTarget`: bring the store to a phase's capacity."""

from stepbench.contracts.tasks import ScaleTargetInput
from stepbench.services import observed_handler
from stepbench.stages.scale_target import scale_target

handler = observed_handler(scale_target, ScaleTargetInput)
