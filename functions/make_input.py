"""Tasks `MakeInput`, `MakeVideoInput`, `MakeLearningInput`: what a DAG begins with, made before the load."""

from stepbench.contracts.dataflow_rows import MakeInputInput
from stepbench.observability import observed
from stepbench.stages.make_input import make_input
from stepbench.stages.services import stage_handler

handler = observed(stage_handler(make_input, MakeInputInput))
