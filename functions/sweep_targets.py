"""Entry point `SweepTargets`: finish what an execution could not."""

import stepbench.compiled  # noqa: F401 -- first: it says for which machine the layers were built
from stepbench.contracts.runs import SweepTargetsInput
from stepbench.observability import observed
from stepbench.services import stage_handler
from stepbench.stages.sweep_targets import sweep_targets

handler = observed(stage_handler(sweep_targets, SweepTargetsInput))
