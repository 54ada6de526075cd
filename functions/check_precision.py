"""Task `CheckPrecision`: whether a phase with `until` may end."""

from stepbench.contracts.tasks import CheckPrecisionInput
from stepbench.observability import observed
from stepbench.services import stage_handler
from stepbench.stages.check_precision import check_precision

handler = observed(stage_handler(check_precision, CheckPrecisionInput))
