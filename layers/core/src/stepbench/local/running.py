"""One run from plan to results, on any stack."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from stepbench.contracts.problem import Problem
from stepbench.contracts.result import RunSummary
from stepbench.errors import PlanError, StepbenchError
from stepbench.local.observing import Observer, watch
from stepbench.local.results import fetch, read_summary
from stepbench.local.stopping import Stopping

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from stepbench.clock import Clock
    from stepbench.local.executions import Executions
    from stepbench.local.progress import Snapshot


@dataclass(frozen=True)
class Outcome:
    """
    How a run ended. `summary` is None where nothing could be rendered; `cause` says then why.

    `folder` holds whatever was fetched. `left` are targets that a stopped run could not tear down.
    """

    run_id: str
    folder: Path
    summary: RunSummary | None
    stopped: bool = False
    cause: str = ""
    left: tuple[str, ...] = ()

    @property
    def succeeded(self) -> bool:
        """Whether the run went through whole."""
        return self.summary is not None and self.summary.status == "succeeded" and not self.stopped


@dataclass(frozen=True)
class Terminal:
    """How a run speaks to people: `say` a sentence, `show` progress."""

    say: Callable[[str], None]
    show: Callable[[Snapshot], None]


class RunAbandonedError(StepbenchError):
    """Interrupted again while it was being stopped, or it could not be stopped: what still moves is unknown."""


class NotTornDownError(RunAbandonedError):
    """A stopped run has left targets that could not be torn down."""

    def __init__(self, run_id: str, left: tuple[str, ...]) -> None:
        super().__init__(
            f"run {run_id} left what could not be torn down: {', '.join(left)}. Does the store still answer? "
            "A deployed stack's sweeper tries again every hour"
        )


def execute(executions: Executions, document: dict[str, Any], out: Path, terminal: Terminal, clock: Clock) -> Outcome:
    """
    Start, watch, fetch. An interrupt, or losing sight of the run, stops it for certain first.

    Args:
        executions: of the run, on its stack.
        document: the plan, as the execution's input.
        out: results go to a folder of the run's name below it.
        terminal: to people.
        clock: ours.

    Raises:
        PlanError: the stack itself refuses the plan; nothing was created.
        RunAbandonedError: see there.
    """
    stopped, left = False, tuple[str, ...]()
    try:
        executions.start(document)
        watch(Observer(executions, clock), terminal.show, clock)
    except KeyboardInterrupt:
        stopped = True
        left = _stop(executions, terminal, clock)
    except BaseException as error:
        if _is_refused_start(error):
            raise
        terminal.say(f"stopping run {executions.run.run_id}: {error}")
        if left := _stop(executions, terminal, clock):
            raise NotTornDownError(executions.run.run_id, left) from error
        raise
    run, stack = executions.run, executions.stack
    folder = fetch(stack.runs, run.run_id, out)
    summary = read_summary(folder)
    cause = "" if summary or stopped else _cause(executions)
    return Outcome(run.run_id, folder, summary, stopped, cause, left)


def _is_refused_start(error: BaseException) -> bool:
    """No such machine, or no right to start it: then there is nothing to stop."""
    if not isinstance(error, ClientError) or error.operation_name != "StartExecution":
        return False
    return bool(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0) in range(400, 500))


def _stop(executions: Executions, terminal: Terminal, clock: Clock) -> tuple[str, ...]:
    try:
        return Stopping(executions, clock, terminal.say).stop()
    except KeyboardInterrupt as error:
        message = f"run {executions.run.run_id} was interrupted while it was being stopped"
        raise RunAbandonedError(message) from error
    except (StepbenchError, BotoCoreError, ClientError) as error:
        message = f"run {executions.run.run_id} could not be stopped for certain: {error}"
        raise RunAbandonedError(message) from error


def _cause(executions: Executions) -> str:
    described = executions.describe()
    error, cause = described.get("error", ""), described.get("cause", "")
    if error == PlanError.__name__:
        message = f"is refused by the stack: {cause}"
        raise PlanError([Problem(path="plan", value=executions.run.run_id, message=message, remedy="Mend the plan.")])
    return f"execution {described.get('status')}: {error}: {cause}".rstrip(": ")
