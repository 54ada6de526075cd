"""Task `AwaitArrivals`: whether everything acknowledged has arrived."""

from stepbench.contracts.tasks import AwaitArrivalsInput
from stepbench.observability import observed
from stepbench.services import stage_handler
from stepbench.stages.await_arrivals import await_arrivals

handler = observed(stage_handler(await_arrivals, AwaitArrivalsInput))
