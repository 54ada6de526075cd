"""Task `AwaitTurn`: a run joins the queue; its execution waits for its turn."""

from stepbench.contracts.runs import AwaitTurnInput
from stepbench.services import observed_handler
from stepbench.stages.await_turn import await_turn

handler = observed_handler(await_turn, AwaitTurnInput)
