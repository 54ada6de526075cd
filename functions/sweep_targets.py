"""Entry point `SweepTargets`: finish what an execution could not."""

import stepbench.compiled  # noqa: F401 -- first: it says for which machine the layers were built
from stepbench.contracts.runs import SweepTargetsInput
from stepbench.services import observed_handler
from stepbench.stages.sweep_targets import sweep_targets

handler = observed_handler(sweep_targets, SweepTargetsInput)
