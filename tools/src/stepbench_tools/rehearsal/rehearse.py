"""The rehearsal itself: rounds of deployment and runs, everything deleted whatever happens, and what came of it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

import stepbench
from stepbench.clock import SystemClock
from stepbench.errors import StepbenchError
from stepbench.planning import expand
from stepbench.planning.wall_time import AWS
from stepbench_tools.local.deploy import build, exclusive_lock
from stepbench_tools.local.display import progress_display
from stepbench_tools.local.executions import Executions, RunSpec, new_run_id
from stepbench_tools.local.interrupts import interruptible, shielded
from stepbench_tools.local.running import Terminal, execute
from stepbench_tools.rehearsal.assumptions import judge_all
from stepbench_tools.rehearsal.budget import Meter, plan_usd, total_usd
from stepbench_tools.rehearsal.deploying import delete_everything, deploy, make_artefacts
from stepbench_tools.rehearsal.evidence import gather
from stepbench_tools.rehearsal.limit import TimeUp, limited
from stepbench_tools.rehearsal.record import Rehearsal, RoundEvidence, RunEvidence
from stepbench_tools.rehearsal.text import report

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from rich.console import Console

    from stepbench.contracts.plan import Plan
    from stepbench.progress import Snapshot
    from stepbench_tools.local.paths import Paths
    from stepbench_tools.rehearsal.account import Account
    from stepbench_tools.rehearsal.budget import Round

DOCUMENT, REPORT = "rehearsal.json", "rehearsal.md"
_NOBODY = "000000000000"


@dataclass
class RunLog:
    """What is known so far, in `folder` as soon as it is known, without the account's number."""

    folder: Path
    account: Account
    found: Rehearsal

    def note(self, **changes: Any) -> None:  # noqa: ANN401 -- fields of `Rehearsal`
        """Change what is known, and write it."""
        self.found = self.found.model_copy(update=changes)
        self.found = self.found.model_copy(update={"assumptions": judge_all(self.found)})
        write(self.folder, self.found, self.account.number)

    def note_round(self, **changes: Any) -> None:  # noqa: ANN401 -- fields of `RoundEvidence`
        """Change what is known of the last round."""
        *before, last = self.found.rounds
        self.note(rounds=(*before, last.model_copy(update=changes)))


def write(folder: Path, found: Rehearsal, number: str) -> None:
    """Write both files; the account's number is in neither, nor in any error that they cite."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in ((DOCUMENT, found.model_dump_json(indent=1)), (REPORT, report(found))):
        draft = folder / f".{name}.part"
        draft.write_text(text.replace(number, _NOBODY))
        draft.replace(folder / name)


@dataclass
class Rehearser:
    """
    It makes one rehearsal, in the main thread.

    Attributes:
        account: where.
        stack: the stack's name.
        paths: of SAM CLI, with a home of the rehearsal's own.
        console: for people.
        log: for what is found.
        parameters: of the template in all rounds.
    """

    account: Account
    stack: str
    paths: Paths
    console: Console
    log: RunLog
    parameters: Mapping[str, str]
    meter: Meter
    clock: SystemClock = field(default_factory=SystemClock)

    def rehearse(self, rounds: Sequence[Round], left_out: Mapping[str, str]) -> Rehearsal:
        """Make all rounds and delete everything; an interrupt, or any error, goes on with the deletion."""
        ended = ""
        try:
            with interruptible():
                self._build()
                make_artefacts(self.account, self.stack)
                off = {name: "off" for each in rounds for name in each.parameters}
                for each in rounds:
                    self._make_round(each, off)
        except TimeUp:
            ended = "the time that the budget allows was up"
        except KeyboardInterrupt:
            ended = "it was interrupted"
        except (StepbenchError, ClientError, BotoCoreError, OSError) as error:
            ended = str(error)
        finally:
            with shielded():
                self._delete(ended)
        omitted = tuple(RoundEvidence(name=name, left_out=reason) for name, reason in left_out.items())
        self.log.note(rounds=(*self.log.found.rounds, *omitted))
        return self.log.found

    def _delete(self, ended: str) -> None:
        if ended:
            self.notify(f"ending early: {ended}")
        self.notify("deleting everything; interrupts are ignored until that is done")
        self.log.note(ended=ended)
        deletion = delete_everything(self.account, self.paths, self.stack, self.notify)
        self.log.note(deletion=deletion, ended_at=_now(), spent_usd=self.meter.spent_usd(time.monotonic()))

    def _make_round(self, one: Round, off: Mapping[str, str]) -> None:
        """Deploy and run; one that cannot be deployed is noted, and the next is tried."""
        now_s = time.monotonic()
        hourly_usd = max(one.hourly_usd, self.meter.hourly_usd)  # until the former's resources are gone
        self.meter.begin(hourly_usd, now_s)
        evidence = RoundEvidence(name=one.name, in_network=one.in_network, hourly_usd=one.hourly_usd)
        self.log.note(rounds=(*self.log.found.rounds, evidence))
        with limited(min(one.limit_h * 3_600, self.meter.seconds_left(now_s))):
            try:
                plans = one.plans if self._deploy(one, {**off, **one.parameters}) else ()
                self.meter.begin(one.hourly_usd, time.monotonic())
                for index, plan in enumerate(plans):
                    self._run(plan, to_be_stopped=index >= len(plans) - one.to_be_stopped)
            finally:
                self.log.note_round(hours=(time.monotonic() - now_s) / 3_600)

    def _build(self) -> None:
        """Build before anything is made; before a deployment, the same is looked at again."""
        self.notify("building (the first time takes minutes)")
        with exclusive_lock(self.paths.build, self.notify):
            self._build_layers()

    def _build_layers(self) -> None:
        build(self.paths, self.parameters["PythonRuntime"], architecture=self.parameters["Architecture"])

    def _deploy(self, one: Round, parameters: Mapping[str, str]) -> bool:
        """Return whether it is there; a failure of the first deployment is raised, since no other can follow it."""
        self.notify(f"deploying for {one.name}")
        try:
            with exclusive_lock(self.paths.build, self.notify):  # one build for all environments of a clone
                self._build_layers()
                began_s = time.monotonic()
                deploy(self.account, self.paths, self.stack, {**self.parameters, **parameters})
        except StepbenchError as error:
            self.notify(f"{one.name} was not deployed: {error}")
            self.log.note_round(failure=str(error))
            if len(self.log.found.rounds) == 1:
                raise
            return False
        self.log.note_round(deployed=True, deploy_s=time.monotonic() - began_s)
        return True

    def _run(self, plan: Plan, *, to_be_stopped: bool) -> None:
        usd = plan_usd(plan)
        if not self.meter.allows(usd, time.monotonic()):
            refused = RunEvidence(run_id=plan.name, status="", failure="its estimate is above what the budget has left")
            self.notify(f"{plan.name} is refused: {refused.failure}")
            self._note_run(refused)
            return
        self.meter.add(usd)
        stack, now = self.account.stack(self.stack), datetime.now(UTC)
        run_id = new_run_id(plan.name, now)
        run = RunSpec(run_id, expand(plan, run_id), now)
        self.notify(f"run {run_id}")
        with progress_display(self.console, AWS) as show:
            interrupt = _InterruptUnderLoad(show) if to_be_stopped else None
            terminal = Terminal(self.notify, interrupt or show)
            document = plan.model_dump(mode="json", exclude_none=True)
            outcome = execute(Executions(stack, run), document, self.log.folder / "runs", terminal, self.clock)
        evidence = gather(stack, run, outcome, to_be_stopped=to_be_stopped)
        self._note_run(evidence)
        if outcome.error:
            raise outcome.error
        if outcome.stopped and not (interrupt and interrupt.raised):
            raise KeyboardInterrupt

    def _note_run(self, evidence: RunEvidence) -> None:
        self.log.note_round(runs=(*self.log.found.rounds[-1].runs, evidence))

    def notify(self, text: str) -> None:
        """Print a sentence for people."""
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)


@dataclass
class _InterruptUnderLoad:
    """It shows progress, and interrupts the run as Ctrl-C does once load is offered."""

    show: Callable[[Snapshot], None]
    raised: bool = False

    def __call__(self, snapshot: Snapshot) -> None:
        self.show(snapshot)
        if snapshot.sent and not self.raised:
            self.raised = True
            raise KeyboardInterrupt


def begin(account: Account, stack: str, rounds: Sequence[Round], budget_usd: float) -> Rehearsal:
    """Return the record of a rehearsal that is about to begin."""
    return Rehearsal(
        stepbench=stepbench.__version__,
        stack=stack,
        region=account.region,
        emulator=account.emulator,
        artefacts=account.artefacts(stack),
        started_at=_now(),
        budget_usd=budget_usd,
        bound_usd=total_usd(rounds),
    )


def _now() -> str:
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S+00:00}"
