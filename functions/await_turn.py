"""Task `AwaitTurn`: a run joins the queue; its execution waits for its turn."""

from stepbench.contracts.run_tasks import AwaitTurnInput
from stepbench.observability import observed
from stepbench.stages.await_turn import await_turn
from stepbench.stages.services import stage_handler

handler = observed(stage_handler(await_turn, AwaitTurnInput))
