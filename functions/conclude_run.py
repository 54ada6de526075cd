"""Task `ConcludeRun`: a run that is over is entered in the register, and makes room in the queue."""

from stepbench.contracts.runs import ConcludeRunInput
from stepbench.observability import observed
from stepbench.services import stage_handler
from stepbench.stages.conclude_run import conclude_run

handler = observed(stage_handler(conclude_run, ConcludeRunInput))
