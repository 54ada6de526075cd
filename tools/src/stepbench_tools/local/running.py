"""One run from plan to results, on any stack: started, watched, stopped if need be, and fetched."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from stepbench.contracts.documents import Failure, plain_cause
from stepbench.contracts.result import RunSummary
from stepbench.contracts.runs import RenderReportInput, TrialOutcome
from stepbench.errors import (
    PlanError,
    Problem,
    RunFailedError,
    ServerEndedError,
    StepbenchError,
)
from stepbench.records.storage import layout
from stepbench.report.summary import NO_ACCOUNT
from stepbench_tools.local.executions import Stopping
from stepbench_tools.local.fetching import NotFetchedError, RunFolder, fetch
from stepbench_tools.local.observer import Observer, watch
from stepbench_tools.local.results import read_summary

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from stepbench.clock import Clock
    from stepbench.progress import Snapshot
    from stepbench_tools.local.executions import Executions
    from stepbench_tools.local.state import ServerWatch


@dataclass(frozen=True)
class RunOutcome:
    """
    The end of a run. `summary` is None where nothing could be rendered; `cause` says then why.

    `folder` holds whatever was fetched. `error` is what ended the run from outside, or could not be done at its end.
    """

    run_id: str
    folder: Path
    summary: RunSummary | None
    stopped: bool = False
    cause: str = ""
    error: Exception | None = None

    @property
    def succeeded(self) -> bool:
        """Return whether the run went through whole."""
        return self.summary is not None and self.summary.status == "succeeded" and not (self.stopped or self.error)

    def passed(self, *, strict: bool = False) -> bool:
        """Return whether it did, and missed none of its thresholds; a strict caller takes no undecided one for kept."""
        refused = {"failed", "undecided"} if strict else {"failed"}
        return self.succeeded and self.summary is not None and self.summary.verdict not in refused


@dataclass(frozen=True)
class Terminal:
    """The terminal of a run: `notify` prints a sentence, `show` draws progress."""

    notify: Callable[[str], None]
    show: Callable[[Snapshot], None]


class RunAbandonedError(RunFailedError):
    """The run was interrupted again while it was being stopped, or could not be: what still moves is unknown."""


class NotTornDownError(RunAbandonedError):
    """A stopped run has left targets that could not be torn down."""

    def __init__(self, run_id: str, left: tuple[str, ...]) -> None:
        super().__init__(
            f"run {run_id} left what could not be torn down: {', '.join(left)}. Does the store still answer? "
            "A deployed stack's sweeper tries again every hour"
        )


def execute(  # noqa: PLR0913 -- the stack, the person, the clock, and what is run
    executions: Executions,
    document: dict[str, Any],
    out: Path,
    terminal: Terminal,
    clock: Clock,
    *,
    servers: ServerWatch | None = None,
    limit_s: float | None = None,
) -> RunOutcome:
    """
    Start a run, watch it, and fetch its results. An interrupt, or losing sight of it, stops it for certain first.

    What is finished is fetched while the run goes on: where the stack is gone, the report is rendered from that, here.

    Args:
        executions: of the run, on its stack.
        document: the plan, as the execution's input.
        out: results go to a folder of the run's name below it.
        terminal: to people.
        clock: of this process.
        servers: of the environment here; None for a deployed stack.
        limit_s: after which it is stopped; None leaves that to the stack.

    Raises:
        PlanError: the stack itself refuses the plan; nothing was created.
    """
    folder = RunFolder(executions.stack.runs, executions.run, out, terminal.notify)
    observer = Observer(executions, clock, folder=folder, servers=servers)
    stopped = False
    error: Exception | None = None
    try:
        executions.start(document)
        watch(observer, terminal.show, clock, limit_s=limit_s)
    except KeyboardInterrupt:
        stopped, error = True, _stop(executions, terminal, clock)
    except ServerEndedError as raised:  # with the emulator, all of the run has ended
        error = RunAbandonedError(str(raised))
    except Exception as raised:
        if _is_refused_start(raised):
            raise
        terminal.notify(f"stopping run {executions.run.run_id}: {raised}")
        error = _stop(executions, terminal, clock) or raised
    outcome = RunOutcome(executions.run.run_id, folder.path, None, stopped, error=error)
    return _collect(observer, folder, document, outcome)


def _collect(observer: Observer, folder: RunFolder, document: dict[str, Any], outcome: RunOutcome) -> RunOutcome:
    """Fetch everything; where the stack is gone, render what is here already."""
    executions, error = observer.executions, outcome.error
    if not isinstance(error, RunAbandonedError) or isinstance(error, NotTornDownError):
        try:
            summary = _fetch_summary(executions, folder, outcome)
            cause = "" if summary or outcome.stopped else _cause(executions)
            return replace(outcome, summary=summary, cause=cause)
        except PlanError:
            raise
        except KeyboardInterrupt:
            if not outcome.stopped:
                folder.notify("the run is over; its results are fetched first (interrupt again to leave them)")
                return _collect(observer, folder, document, replace(outcome, stopped=True))
            error = RunAbandonedError(f"run {outcome.run_id} was interrupted while its results were fetched")
        except (OSError, BotoCoreError, ClientError, StepbenchError) as raised:
            error = _not_fetched(executions, folder, raised)
    try:
        observer.look_at_servers()
    except ServerEndedError as raised:
        error = RunAbandonedError(str(raised))
    if isinstance(outcome.error, NotTornDownError):
        folder.notify(str(outcome.error))  # of two errors, only the later is raised
    if isinstance(error, NotFetchedError):  # without a summary here, `stepbench report` fetches everything
        return replace(outcome, error=error)
    failure = None if outcome.stopped else Failure(error=type(error).__name__, cause=str(error))
    try:
        folder.render(document, observer.clock, emulated=executions.stack.endpoint is not None, failure=failure)
        return replace(outcome, summary=read_summary(folder.path), error=error)
    except (Exception, KeyboardInterrupt) as raised:  # noqa: BLE001 -- by `error`, the environment ends
        return replace(outcome, cause=str(raised) or type(raised).__name__, error=error)


def _fetch_summary(executions: Executions, folder: RunFolder, outcome: RunOutcome) -> RunSummary | None:
    """Fetch everything; return the summary, in which each trial that failed has a cause."""
    summary = read_summary(fetch(executions.stack.runs, outcome.run_id, folder.out))
    if not outcome.stopped:
        return _explain(executions, summary, folder)
    if summary is not None and summary.status == "succeeded":
        folder.notify(f"run {outcome.run_id} was over when it was interrupted; its results are whole")
    return summary


def _explain(executions: Executions, summary: RunSummary | None, folder: RunFolder) -> RunSummary | None:
    """Let the report say of trials that left no account what their executions do: those may be gone soon."""
    trials = () if summary is None else summary.trials
    silent = [trial.index for trial in trials if trial.failure and trial.failure.cause == NO_ACCOUNT]
    if not silent:
        return summary
    run, stack = executions.run, executions.stack
    try:
        for spec in (run.specs[index] for index in silent):
            if (failure := executions.failure_of(spec)) is not None:
                stack.runs.put_model(layout.trial_key(spec.ref, "failure.json"), failure)
        errors = {trial.index: trial.failure.error for trial in trials if trial.failure}
        outcomes = tuple(TrialOutcome(trial=spec.index, error=errors.get(spec.index, "")) for spec in run.specs)
        task = RenderReportInput(run_id=run.run_id, started_at=run.started_at, outcomes=outcomes)
        stack.call("RenderReportFunction", task.model_dump(mode="json"))
    except (StepbenchError, BotoCoreError, ClientError):
        return summary
    return read_summary(fetch(stack.runs, run.run_id, folder.out))


def _not_fetched(executions: Executions, folder: RunFolder, error: Exception) -> NotFetchedError:
    run_id, stack = executions.run.run_id, executions.stack
    if stack.endpoint is None:
        kept = f"they are in s3://{stack.runs.bucket}/{layout.run_key(run_id, '')}"
    else:
        kept = (
            "the environment that has them is kept: mend that, then "
            f"`stepbench report {run_id} --out {folder.out}` fetches them, and `stepbench down` ends it"
        )
    return NotFetchedError(f"the results of run {run_id} are not all in {folder.path}: {error}; {kept}")


def _is_refused_start(error: BaseException) -> bool:
    """Return whether the start failed (no such machine, or no right to start it): there is nothing to stop then."""
    if not isinstance(error, ClientError) or error.operation_name != "StartExecution":
        return False
    return bool(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0) in range(400, 500))


def _stop(executions: Executions, terminal: Terminal, clock: Clock) -> RunAbandonedError | None:
    """Stop the run; return why it is not at rest, or what it has left."""
    run_id = executions.run.run_id
    try:
        left = Stopping(executions, clock, terminal.notify).stop()
    except KeyboardInterrupt:
        return RunAbandonedError(f"run {run_id} was interrupted while it was being stopped")
    except (StepbenchError, BotoCoreError, ClientError) as error:
        return RunAbandonedError(f"run {run_id} could not be stopped for certain: {error}")
    return NotTornDownError(run_id, left) if left else None


def _cause(executions: Executions) -> str:
    described = executions.describe()
    error, cause = described.get("error", ""), described.get("cause", "")
    if error == PlanError.__name__:
        message = f"is refused by the stack: {cause}"
        raise PlanError([Problem(path="plan", value=executions.run.run_id, message=message, remedy="Mend the plan.")])
    return f"execution {described.get('status')}: {error}: {plain_cause(cause)}".rstrip(": ")
