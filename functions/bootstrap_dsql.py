"""Entry point `BootstrapDsql`: custom resources of the stack's clusters of Aurora DSQL."""

import stepbench.compiled  # noqa: F401 -- first: it says for which machine the layers were built
from stepbench.contracts.custom_resource import BootstrapDsqlInput
from stepbench.services import observed_handler
from stepbench.stages.bootstrap_dsql import bootstrap_dsql

handler = observed_handler(bootstrap_dsql, BootstrapDsqlInput)
