"""Task `AnalyseTrial`: stored records in, one result out."""

from stepbench.contracts.tasks import AnalyseTrialInput
from stepbench.observability import observed
from stepbench.stages.analyse_trial import analyse_trial
from stepbench.stages.services import stage_handler

handler = observed(stage_handler(analyse_trial, AnalyseTrialInput))
