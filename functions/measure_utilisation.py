"""Task `MeasureUtilisation`: how busy the store was during a phase."""

from stepbench.contracts.tasks import MeasureUtilisationInput
from stepbench.observability import observed
from stepbench.services import stage_handler
from stepbench.stages.measure_utilisation import measure_utilisation

handler = observed(stage_handler(measure_utilisation, MeasureUtilisationInput))
