"""Task `AnalyseTrial`: stored records in, one result out."""

from stepbench.contracts.tasks import AnalyseTrialInput
from stepbench.observability import observed
from stepbench.services import stage_handler
from stepbench.stages.analyse_trial import analyse_trial

handler = observed(stage_handler(analyse_trial, AnalyseTrialInput))
