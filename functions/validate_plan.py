"""Task `ValidatePlan`: a user's plan in, stored and priced trials out, or a refusal."""

import stepbench.compiled  # noqa: F401 -- first: it says for which machine the layers were built
from stepbench.contracts.runs import ValidatePlanInput
from stepbench.services import observed_handler
from stepbench.stages.validate_plan import validate_plan

handler = observed_handler(validate_plan, ValidatePlanInput)
