"""Task `RefreshSandboxes`: have the next transfer in Lambda begin in a new sandbox."""

from stepbench.contracts.transfer.rows import RefreshSandboxesInput
from stepbench.services import observed_handler
from stepbench.stages.refresh_sandboxes import refresh_sandboxes

handler = observed_handler(refresh_sandboxes, RefreshSandboxesInput)
