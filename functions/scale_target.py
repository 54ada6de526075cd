"""Task `ScaleTarget`: bring the store to a phase's capacity."""

from stepbench.contracts.tasks import ScaleTargetInput
from stepbench.observability import observed
from stepbench.stages.scale_target import scale_target
from stepbench.stages.services import stage_handler

handler = observed(stage_handler(scale_target, ScaleTargetInput))
