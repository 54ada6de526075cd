"""Entry point `DropResults`: the custom resource that deletes the results bucket with its stack."""

import stepbench.compiled  # noqa: F401 -- first: it says for which machine the layers were built
from stepbench.contracts.custom_resource import DropResultsInput
from stepbench.services import observed_handler
from stepbench.stages.drop_results import drop_results

handler = observed_handler(drop_results, DropResultsInput)
