"""Task `MeasureUtilisation`: how busy the store was during a phase."""

from stepbench.contracts.tasks import MeasureUtilisationInput
from stepbench.observability import observed
from stepbench.stages.measure_utilisation import measure_utilisation
from stepbench.stages.services import stage_handler

handler = observed(stage_handler(measure_utilisation, MeasureUtilisationInput))
