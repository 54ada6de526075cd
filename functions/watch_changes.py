"""Task `WatchChanges`: one lane's turn at holding a pull trigger. On the measured path: nothing decorates it."""

from stepbench.contracts.tasks import WatchChangesInput
from stepbench.services import stage_handler
from stepbench.stages.watch_changes import watch_changes

handler = stage_handler(watch_changes, WatchChangesInput)
