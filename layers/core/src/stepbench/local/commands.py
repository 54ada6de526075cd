"""What `stepbench run` does with its plans, here and on a deployed stack."""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from stepbench.clock import SystemClock
from stepbench.contracts.result import SkippedTrial, SkippedTrials
from stepbench.local.display import progress_display
from stepbench.local.executions import Executions, Run, new_run_id
from stepbench.local.floors import DURATION_S, measure_floors
from stepbench.local.progress import AWS, LOCAL, Overheads
from stepbench.local.results import REPORT, SUMMARY, headline, remedies
from stepbench.local.running import NotTornDownError, Outcome, Terminal, execute
from stepbench.local.session import Session, local_session, why_skipped
from stepbench.local.stack import Stack, remote_stack
from stepbench.local.utilisation import published
from stepbench.planning import Expanded, expand, expanded, refuse_traces
from stepbench.records import layout

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from rich.console import Console

    from stepbench.contracts.plan import Plan, TrialPlan
    from stepbench.local.places import Places


@dataclass(frozen=True)
class Options:
    """How to run: `json` for summaries on stdout, `floors` for measuring them first (here only)."""

    out: Path
    json: bool = False
    floors: bool = True


@dataclass(frozen=True)
class Runner:
    """Runs one plan after the other and tells how it went."""

    stack: Stack
    options: Options
    overheads: Overheads
    people: Console
    data: Console
    session: Session | None = None

    def run_all(self, plans: Sequence[Plan]) -> bool:
        """
        Whether every plan ran whole. After one that was stopped, no other is begun.

        Raises:
            RunAbandonedError: a stopped run has left something moving, or not torn down.
        """
        whole = True
        for plan in plans:
            outcome, complete = self.run_one(plan)
            whole = whole and complete
            if outcome is not None and outcome.stopped:
                return False
        return whole

    def run_one(self, plan: Plan) -> tuple[Outcome | None, bool]:
        """How it ended (None where nothing of it can run here), and whether it ran whole. Raises as `run_all`."""
        started_at = datetime.now(UTC)
        run_id = new_run_id(plan.name, started_at)
        skipped = self.session.skipped if self.session else {}
        kept = without(plan, skipped)
        for trial in left_out(plan, skipped):
            self.say(f"{trial.name} is skipped: {trial.reason}")
        if kept is None:
            self.say(f"nothing of {plan.name} can run here")
            return None, False
        self._prepare(plan, kept, run_id, skipped)
        run = Run(run_id, expand(kept, run_id), datetime.now(UTC))
        document = kept.model_dump(mode="json", exclude_none=True)
        self.say(f"run {run_id}")
        with progress_display(self.people, self.overheads) as show, self._utilisation(kept):
            executions = Executions(self.stack, run)
            outcome = execute(executions, document, self.options.out, Terminal(self.say, show), SystemClock())
        self._tell(outcome)
        if outcome.left:
            raise NotTornDownError(run_id, outcome.left)
        return outcome, outcome.succeeded and kept == plan

    def _utilisation(self, plan: Plan) -> AbstractContextManager[None]:
        """Here, while a plan looks for a rate: how busy the servers are, where the stack looks for it."""
        if self.session is None or all(trial.find_rate is None for trial in plan.trials):
            return nullcontext()
        return published(self.session.pids, self.stack.aws("cloudwatch"))

    def _prepare(self, plan: Plan, kept: Plan, run_id: str, skipped: Mapping[str, str]) -> None:
        """Put beside the run what its report needs to know of this machine."""
        if self.session is None:
            return
        missing = tuple(left_out(plan, skipped))
        if missing:
            self.stack.runs.put_model(layout.run_key(run_id, "skipped.json"), SkippedTrials(trials=missing))
        if self.options.floors:
            self.say(f"measuring this machine's floors, about {DURATION_S:.0f} s (--no-floors leaves it out)")
            floors = measure_floors(self.stack, kept, run_id, self.session.etcd, SystemClock())
            self.stack.runs.put_json(layout.run_key(run_id, "floors.json"), floors)

    def _tell(self, outcome: Outcome) -> None:
        if outcome.summary is None:
            self.say(f"no report: {outcome.cause or 'the run was stopped before there was anything to report'}")
            return
        self.people.print(headline(outcome.summary, self.people.width))
        for remedy in remedies(outcome.summary):
            self.say(f"  {remedy}")
        report = outcome.folder / REPORT
        if self.options.json:
            document: Any = json.loads((outcome.folder / SUMMARY).read_bytes())
            self.data.print(json.dumps(document), soft_wrap=True, markup=False, highlight=False)
        elif report.exists():
            self.data.print(str(report), soft_wrap=True, markup=False, highlight=False)

    def say(self, text: str) -> None:
        """A sentence for people."""
        self.people.print(text, markup=False, highlight=False, soft_wrap=True)


def without(plan: Plan, skipped: Mapping[str, str]) -> Plan | None:
    """The plan less what cannot run here, each trial under the name it has in the whole plan; None if none is left."""
    if not left_out(plan, skipped):
        return plan
    kept = [trial for trial in expanded(plan) if why_skipped(trial.plan, skipped) is None]
    trials = tuple(
        left
        for source, trial in enumerate(plan.trials)
        for left in _left_of(trial, [each for each in kept if each.source == source])
    )
    return plan.model_copy(update={"trials": trials}) if trials else None


def _left_of(trial: TrialPlan, kept: Sequence[Expanded]) -> list[TrialPlan]:
    """The trial itself if all it expands into is kept; otherwise one for each point of its matrix that is."""
    if len(kept) == trial.copies:
        return [trial.model_copy(update={"name": kept[0].base or None})]
    repeated = {"repeats": trial.repeats}
    return [each.plan.model_copy(update={"name": each.group, **repeated}) for each in kept if each.repeat == 0]


def left_out(plan: Plan, skipped: Mapping[str, str]) -> list[SkippedTrial]:
    """The trials that cannot run here, with the reason."""
    reasons = [(each, why_skipped(each.plan, skipped)) for each in expanded(plan)]
    return [
        SkippedTrial(name=each.name, store=each.plan.target.store, reason=reason)
        for each, reason in reasons
        if reason is not None
    ]


def run_here(places: Places, plans: Sequence[Plan], options: Options, people: Console, data: Console) -> bool:
    """
    Run on this machine; whether everything ran whole.

    Raises:
        PlanError: a plan wants X-Ray.
    """
    for plan in plans:
        refuse_traces(plan, "the local emulator")

    def say(text: str) -> None:
        people.print(text, markup=False, highlight=False, soft_wrap=True)

    with local_session(places, say) as session:
        return Runner(session.stack, options, LOCAL, people, data, session).run_all(plans)


def run_there(stack: str, plans: Sequence[Plan], options: Options, people: Console, data: Console) -> bool:
    """Run on a deployed stack; whether everything ran whole."""
    return Runner(remote_stack(stack), options, AWS, people, data).run_all(plans)
