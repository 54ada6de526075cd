"""Task `ScaleTarget`: bring the store to a phase's capacity."""

from stepbench.contracts.tasks import ScaleTargetInput
from stepbench.observability import observed
from stepbench.services import stage_handler
from stepbench.stages.scale_target import scale_target

handler = observed(stage_handler(scale_target, ScaleTargetInput))
