"""Task `PlanPhase`: fix a phase's start and write the items of its Map."""

from stepbench.contracts.tasks import PlanPhaseInput
from stepbench.services import observed_handler
from stepbench.stages.plan_phase import plan_phase

handler = observed_handler(plan_phase, PlanPhaseInput)
