"""Task `AwaitArrivals`: whether everything acknowledged has arrived."""

from stepbench.contracts.tasks import AwaitArrivalsInput
from stepbench.services import observed_handler
from stepbench.stages.await_arrivals import await_arrivals

handler = observed_handler(await_arrivals, AwaitArrivalsInput)
