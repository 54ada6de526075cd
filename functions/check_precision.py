"""Task `CheckPrecision`: whether a phase with `until` may end."""

from stepbench.contracts.tasks import CheckPrecisionInput
from stepbench.services import observed_handler
from stepbench.stages.check_precision import check_precision

handler = observed_handler(check_precision, CheckPrecisionInput)
