"""Task `ConcludeRun`: a run that is over is entered in the register, and makes room in the queue."""

from stepbench.contracts.runs import ConcludeRunInput
from stepbench.services import observed_handler
from stepbench.stages.conclude_run import conclude_run

handler = observed_handler(conclude_run, ConcludeRunInput)
