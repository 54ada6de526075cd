"""Tasks `MakeInput`, `MakeVideoInput`, `MakeLearningInput`: what a DAG begins with, made before the load."""

from stepbench.contracts.dataflow.rows import MakeInputInput
from stepbench.services import observed_handler
from stepbench.stages.make_input import make_input

handler = observed_handler(make_input, MakeInputInput)
