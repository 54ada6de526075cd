"""Task `AnalyseTrial`: stored records in, one result out."""

from stepbench.contracts.tasks import AnalyseTrialInput
from stepbench.services import observed_handler
from stepbench.stages.analyse_trial import analyse_trial

handler = observed_handler(analyse_trial, AnalyseTrialInput)
