"""Task `AnalyseTrial`: stored records in, `result.json` out. After a failure too: then the result is `incomplete`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench.analysis.evidence import Stored
from stepbench.contracts.tasks import AnalyseTrialInput, AnalyseTrialOutput
from stepbench.costs.standing import deployment
from stepbench.experiments.registry import experiment_of
from stepbench.records.storage import layout

if TYPE_CHECKING:
    from stepbench.services import Services


def analyse_trial(task: AnalyseTrialInput, services: Services) -> AnalyseTrialOutput:
    """
    Join, balance the accounting, and compute what the report shows.

    Raises:
        AccountingError: the records contradict each other.
        RecordsUnavailableError: bucket or table do not answer.
    """
    spec = services.trial(task.ref)
    stack = deployment(services.settings)
    stored = Stored(spec, task.failure, services.runs, services.table, services.clock, stack)
    result = experiment_of(spec.plan.experiment).analyse(stored)
    key = layout.trial_key(task.ref, "result.json")
    services.runs.put_model(key, result)
    return AnalyseTrialOutput(result_key=key)
