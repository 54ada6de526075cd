"""Task `AnalyseTrial`: stored records in, `result.json` out. After a failure too: then the result is `incomplete`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench.analysis.evidence import gather
from stepbench.analysis.transfer_evidence import gather_transfers
from stepbench.analysis.transfer_trial import transfer_result
from stepbench.analysis.trial import trial_result
from stepbench.contracts.tasks import AnalyseTrialInput, AnalyseTrialOutput
from stepbench.records.storage import layout
from stepbench.stages.deployment import deployment

if TYPE_CHECKING:
    from stepbench.stages.services import Services


def analyse_trial(task: AnalyseTrialInput, services: Services) -> AnalyseTrialOutput:
    """
    Join, balance the accounting, and compute what the report shows.

    Raises:
        AccountingError: the records contradict each other.
        RecordsUnavailableError: bucket or table do not answer.
    """
    spec = services.trial(task.ref)
    stack = deployment(services.settings)
    stored = (spec, task.failure, services.runs, services.table)
    if spec.plan.experiment == "transfer":
        result = transfer_result(gather_transfers(*stored, deployment=stack))
    else:
        result = trial_result(gather(*stored, services.clock, deployment=stack))
    key = layout.trial_key(task.ref, "result.json")
    services.runs.put_model(key, result)
    return AnalyseTrialOutput(result_key=key)
