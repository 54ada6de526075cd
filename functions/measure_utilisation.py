"""Task `MeasureUtilisation`: how busy the store was during a phase."""

from stepbench.contracts.tasks import MeasureUtilisationInput
from stepbench.services import observed_handler
from stepbench.stages.measure_utilisation import measure_utilisation

handler = observed_handler(measure_utilisation, MeasureUtilisationInput)
