"""Entry point `BootstrapDsql`: custom resources of the stack's clusters of Aurora DSQL."""

from stepbench.contracts.custom_resource import BootstrapDsqlInput
from stepbench.observability import observed
from stepbench.stages.bootstrap_dsql import bootstrap_dsql
from stepbench.stages.services import stage_handler

handler = observed(stage_handler(bootstrap_dsql, BootstrapDsqlInput))
