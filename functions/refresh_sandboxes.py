"""Task `RefreshSandboxes`: have the next transfer in Lambda begin in a new sandbox."""

from stepbench.contracts.transfer_rows import RefreshSandboxesInput
from stepbench.observability import observed
from stepbench.stages.refresh_sandboxes import refresh_sandboxes
from stepbench.stages.services import stage_handler

handler = observed(stage_handler(refresh_sandboxes, RefreshSandboxesInput))
