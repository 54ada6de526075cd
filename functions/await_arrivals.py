"""Task `AwaitArrivals`: whether everything acknowledged has arrived."""

from stepbench.contracts.tasks import AwaitArrivalsInput
from stepbench.observability import observed
from stepbench.stages.await_arrivals import await_arrivals
from stepbench.stages.services import stage_handler

handler = observed(stage_handler(await_arrivals, AwaitArrivalsInput))
