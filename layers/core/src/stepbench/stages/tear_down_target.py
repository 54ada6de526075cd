"""Task `TearDownTarget`: nothing runs, nothing is left, and only then is the lease released."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stepbench.contracts.documents import Failure
from stepbench.contracts.tasks import StateError, TearDownTargetInput, TearDownTargetOutput
from stepbench.errors import TargetUnreachableError
from stepbench.stages.leftovers import cancel, note, tear_down
from stepbench.stages.target_driver import note_unreached

if TYPE_CHECKING:
    from stepbench.services import Services
    from stepbench.stages.target_driver import BuildDriver


def tear_down_target(
    task: TearDownTargetInput, services: Services, *, build: BuildDriver | None = None
) -> TearDownTargetOutput:
    """
    Stop what still runs, remove what the trial made, release its lease; call again until `done`.

    A trial that holds no lease has been torn down, or never began: then there is nothing to do. One that has made
    nothing gives its lease back, whether the store answers or not.

    Raises:
        TargetUnavailableError: the store does not answer; the lease stays, for a retry, the run's next trial on this
            target, or the sweeper.
    """
    failure = failure_of(task.failure)
    if failure is not None:
        note(task.ref, "failure.json", failure, services)
        cancel(task.ref.tag, f"the trial failed: {failure.error}", services)
        if failure.error == TargetUnreachableError.__name__:
            note_unreached(services.trial(task.ref), failure.cause, services)
    try:
        return TearDownTargetOutput(done=tear_down(task.ref, services, build=build))
    except Exception as error:
        if failure is None:  # otherwise its first failure stands
            note(task.ref, "failure.json", Failure(error=type(error).__name__, cause=str(error)), services)
        raise


def failure_of(state: StateError) -> Failure | None:
    """Return what made the trial fail; else what went wrong after the measurement was done."""
    first = state.failure()
    if first is not None:
        return first
    later: tuple[dict[str, Any] | None, ...] = (state.collect_logs, state.analyse_trial, state.export_records)
    return next((Failure(error=str(e.get("Error", "")), cause=str(e.get("Cause", ""))) for e in later if e), None)
