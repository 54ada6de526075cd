"""Task `PlanPhase`: fix a phase's start and write the items of its Map."""

from stepbench.contracts.tasks import PlanPhaseInput
from stepbench.observability import observed
from stepbench.services import stage_handler
from stepbench.stages.plan_phase import plan_phase

handler = observed(stage_handler(plan_phase, PlanPhaseInput))
