"""Task `RunWriter`: one attempt at one slice of a writer's load. On the measured path: nothing decorates it."""

from stepbench.contracts.tasks import RunWriterInput
from stepbench.services import stage_handler
from stepbench.stages.run_writer import run_writer

handler = stage_handler(run_writer, RunWriterInput)
