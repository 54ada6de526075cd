"""Entry point `DropResults`: the custom resource that deletes the results bucket with its stack."""

import stepbench.compiled  # noqa: F401 -- first: it says for which machine the layers were built
from stepbench.contracts.custom_resource import DropResultsInput
from stepbench.observability import observed
from stepbench.services import stage_handler
from stepbench.stages.drop_results import drop_results

handler = observed(stage_handler(drop_results, DropResultsInput))
