"""
`stepbench run`: plans in, runs and their reports out, here and on a deployed stack; and the load host of a run here.

A load host is the program that EC2 runs, beside the emulator, with the rights of the host's role.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import IntEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import stepbench
from stepbench.clock import SystemClock
from stepbench.contracts.documents import SkippedTrials
from stepbench.errors import TargetUnavailableError
from stepbench.experiments.report.headline import describe_status
from stepbench.load.machine_speed import SPEED_CHECK_S, check_cores
from stepbench.planning import expand, expanded, refuse_on_emulator
from stepbench.planning.wall_time import AWS, LOCAL, Overheads, overdue_s
from stepbench.records.storage import layout
from stepbench_tools.local.deploy import python_runtime
from stepbench_tools.local.environment import EnvironmentOptions
from stepbench_tools.local.executions import Executions, RunSpec, new_run_id
from stepbench_tools.local.fetching import REPORT, SUMMARY, NotFetchedError
from stepbench_tools.local.floors import DURATION_S, measure_floors
from stepbench_tools.local.packing.dependencies import Workshop
from stepbench_tools.local.packing.package import pack_plans, uploaded
from stepbench_tools.local.packing.rows import pack_rows, upload_rows
from stepbench_tools.local.processes import spawn, terminate, wait_until
from stepbench_tools.local.programs import following_logs
from stepbench_tools.local.results import sentences
from stepbench_tools.local.running import RunOutcome, Terminal, execute
from stepbench_tools.local.session import LocalSession, local_session
from stepbench_tools.local.stack import REGION, Stack, StackError, remote_stack
from stepbench_tools.local.state import ServerWatch
from stepbench_tools.local.store_list import runnable_part, skipped_trials, stores_on_demand
from stepbench_tools.local.streams import message_console
from stepbench_tools.local.terminal import headline, progress_display
from stepbench_tools.local.utilisation import Publisher, server_pids

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from rich.console import Console

    from stepbench.contracts.plan import Plan
    from stepbench.contracts.result import RunSummary
    from stepbench_tools.local.paths import Paths
    from stepbench_tools.local.stack import Stack

AS_IT_IS: dict[str, Any] = {"markup": False, "highlight": False, "soft_wrap": True}
"""Options of `Console.print` for text of ours and of servers, which has no markup."""


class Ending(IntEnum):
    """How runs ended, a worse one above a better: whole, with a threshold missed, or failed, stopped or not whole."""

    WHOLE = 0
    THRESHOLD_MISSED = 1
    NOT_WHOLE = 2


@dataclass(frozen=True)
class Options:
    """
    The options of a run.

    json: print summaries on stdout. strict: a threshold that is not decided counts as missed. floors: measure them
    first (here only). quiet: nothing on stderr but what went wrong. verbose: what local servers and tools write.
    open_page: is given each report. etcd_members: as in `EnvironmentOptions` (here only).
    """

    out: Path
    json: bool = False
    strict: bool = False
    floors: bool = True
    quiet: bool = False
    verbose: bool = False
    open_page: Callable[[Path], None] | None = None
    etcd_members: int | None = None


@dataclass(frozen=True)
class Runner:
    """The runner runs one plan after the other and prints how each went: results to `output`, else to `console`."""

    stack: Stack
    options: Options
    overheads: Overheads
    console: Console
    output: Console
    session: LocalSession | None = None
    paths: Paths | None = None

    def run_all(self, plans: Sequence[Plan]) -> Ending:
        """
        Return the worst that became of a plan; after one that was stopped, no other is started.

        Raises:
            RunAbandonedError: a run has left something moving, or not torn down, or its emulator has ended.
            NotFetchedError: results could not be fetched.
        """
        worst = Ending.WHOLE
        for plan in plans:
            outcome, ending = self.run_one(plan)
            worst = max(worst, ending)
            if outcome is not None and outcome.stopped:
                break
        return worst

    def run_one(self, plan: Plan) -> tuple[RunOutcome | None, Ending]:
        """Return what came of it (None where nothing of it runs here), and how it ended. Raises as `run_all`."""
        started_at = datetime.now(UTC)
        run_id = new_run_id(plan.name, started_at)
        skipped = self.session.state.skipped if self.session else {}
        runnable = runnable_part(plan, skipped)
        for trial in skipped_trials(plan, skipped):
            self.warn(f"{trial.name} is skipped: {trial.reason}")
        if runnable is None:
            self.warn(f"nothing of {plan.name} can run here")
            return None, Ending.NOT_WHOLE
        self._prepare(plan, runnable, run_id, skipped)
        run = RunSpec(run_id, expand(runnable, run_id, self.overheads.assumed), datetime.now(UTC))
        document = runnable.model_dump(mode="json", exclude_none=True)
        self.notify(f"run {run_id}")
        with progress_display(self.console, self.overheads) as show, self._utilisation(runnable), self._load(runnable):
            executions, clock = Executions(self.stack, run), SystemClock()
            servers = ServerWatch(self.session.state.servers, clock, self.session.needed) if self.session else None
            limit_s = overdue_s([spec.plan for spec in run.specs], self.overheads) if self.session else None
            terminal = Terminal(self.notify, show)
            outcome = execute(executions, document, self.options.out, terminal, clock, servers=servers, limit_s=limit_s)
        if self.session is not None and not isinstance(outcome.error, NotFetchedError):
            self.session.note_fetched(run_id)
        try:
            self._print_outcome(outcome)
        finally:  # whatever becomes of the words, the environment has to hear of it
            if outcome.error:
                raise outcome.error
        if not outcome.succeeded or runnable != plan:
            return outcome, Ending.NOT_WHOLE
        return outcome, Ending.WHOLE if outcome.passed(strict=self.options.strict) else Ending.THRESHOLD_MISSED

    def _utilisation(self, plan: Plan) -> AbstractContextManager[None]:
        """Publish how busy the servers are while a plan searches for a rate, where the stack reads it; here only."""
        if self.session is None or all(trial.find_rate is None for trial in plan.trials):
            return nullcontext()
        return Publisher(server_pids(self.session.state), self.stack.aws("cloudwatch"))

    def _load(self, plan: Plan) -> AbstractContextManager[object]:
        """Run the load host of a plan that takes its load from one; of a deployed stack, it is there already."""
        if self.paths is None or all(trial.plan.load_from == "lambda" for trial in expanded(plan)):
            return nullcontext()
        return load_host(self.stack, self.paths)

    def _prepare(self, plan: Plan, runnable: Plan, run_id: str, skipped: Mapping[str, str]) -> None:
        """Store beside the run what its report needs to know of this machine."""
        if self.session is None:
            return
        missing = tuple(skipped_trials(plan, skipped))
        if missing:
            self.stack.runs.put_model(layout.run_key(run_id, "skipped.json"), SkippedTrials(trials=missing))
        if self.options.floors:
            takes_s = DURATION_S + 2 * SPEED_CHECK_S
            self.notify(f"measuring this machine's bare triggers, about {takes_s:.0f} s (--no-floors leaves it out)")
            self.stack.runs.put_model(layout.machine_key(run_id), check_cores())
            floors = measure_floors(self.stack, runnable, run_id, self.session.etcd, SystemClock())
            self.stack.runs.put_json(layout.run_key(run_id, "floors.json"), floors)

    def _print_outcome(self, outcome: RunOutcome) -> None:
        if outcome.summary is None:
            if outcome.error and not outcome.cause:
                return
            self.warn(f"no report: {outcome.cause or 'the run was stopped before there was anything to report'}")
            return
        if self.options.quiet and not outcome.passed(strict=self.options.strict):
            self.warn(f"{outcome.run_id}: {describe_status(outcome.summary)}")
        self.console.print(headline(outcome.summary, self.console.width))
        for sentence in sentences(outcome.summary):
            self.notify(f"  {sentence}".rstrip())
        report = outcome.folder / REPORT
        if self.options.json:
            self.output.print(json.dumps(json.loads((outcome.folder / SUMMARY).read_bytes())), **AS_IT_IS)
        elif report.exists():
            self.output.print(str(report), **AS_IT_IS)
        if self.options.open_page and report.exists():
            self.options.open_page(report)

    def warn(self, text: str) -> None:
        """Print what went wrong, however quiet the command is to be."""
        console = message_console() if self.options.quiet else self.console
        console.print(text, **AS_IT_IS)

    def notify(self, text: str) -> None:
        """Print a sentence for people."""
        self.console.print(text, **AS_IT_IS)


def run_here(paths: Paths, plans: Sequence[Plan], options: Options, console: Console, output: Console) -> Ending:
    """
    Run on this machine, and return the worst that became of a plan.

    Raises:
        PlanError: a plan wants what no emulator plays.
    """
    for plan in plans:
        refuse_on_emulator(plan, "the local emulator")
    notify = partial(console.print, **AS_IT_IS)
    rows = pack_rows(plans)
    packed = pack_plans(rows.plans, Workshop(paths, partial(python_runtime, paths), notify))
    logs = following_logs(paths.logs, notify) if options.verbose else nullcontext()
    with (
        logs,
        local_session(paths, notify, EnvironmentOptions(options.etcd_members, stores_on_demand(plans))) as session,
        uploaded(packed, session.stack, notify),
    ):
        upload_rows(rows, session.stack, notify)
        return Runner(session.stack, options, LOCAL, console, output, session, paths).run_all(packed.plans)


def run_there(stack: str, plans: Sequence[Plan], options: Options, console: Console, output: Console) -> Ending:
    """Run on a deployed stack, and return the worst that became of a plan."""
    found, rows = remote_stack(stack), pack_rows(plans)
    upload_rows(rows, found, partial(console.print, **AS_IT_IS))
    return Runner(found, options, AWS, console, output).run_all(rows.plans)


def evaluated_there(stack: Stack, out: Path) -> Callable[[Plan], RunSummary]:
    """
    Return what runs a plan on a deployed stack, quietly, and returns its summary, whatever became of its trials.

    It raises KeyboardInterrupt where it was stopped, TargetUnavailableError where it left no summary, and as `Runner`.
    """
    console = message_console(quiet=True)
    runner = Runner(stack, Options(out=out, quiet=True), AWS, console, console)

    def run(plan: Plan) -> RunSummary:
        outcome, _ = runner.run_one(plan)
        if outcome is None or outcome.stopped:
            raise KeyboardInterrupt
        if outcome.summary is None:
            message = f"run {outcome.run_id} has no summary: {outcome.cause}"
            raise TargetUnavailableError(message)
        return outcome.summary

    return run


NAME, MACHINE = "load-host", "this machine"
QUEUE, ROLE = "LoadQueueUrl", "LoadHostRoleArn"
START_S, DRAIN_S = 30, 15
SESSION_S = 12 * 3_600


@contextlib.contextmanager
def load_host(stack: Stack, paths: Paths) -> Iterator[int]:
    """
    Yield the pid of a load host of a stack on the emulator; end it at the end.

    Raises:
        LocalEnvironmentError: it does not start; with the end of its log.
    """
    log = paths.logs / f"{NAME}.log"
    before = set(stack.table.beats(layout.LOAD_HOSTS))

    def is_there() -> bool:
        return bool(set(stack.table.beats(layout.LOAD_HOSTS)) - before)

    arguments = [sys.executable, "-m", "stepbench.load_host", *program_arguments(stack)]
    pid = spawn([*arguments, "--machine", MACHINE], log=log, env=_environment(stack), cwd=paths.home)
    try:
        wait_until("the load host takes writers", is_there, timeout_s=START_S, pid=pid, log=log)
        yield pid
    finally:
        terminate([pid], grace_s=DRAIN_S)


def program_arguments(stack: Stack) -> list[str]:
    """
    Return what a load host of a stack is started with, beside how many writers it takes and what it is.

    Raises:
        StackError: the stack takes no load from hosts.
    """
    if ROLE not in stack.outputs:
        message = f"stack {stack.name!r} takes no load from hosts; deploy it with LoadHost=own (or on, which makes one)"
        raise StackError(message)
    return ["--queue-url", stack.outputs[QUEUE], "--function", f"{stack.name}-RunWriter"]


def _environment(stack: Stack) -> Mapping[str, str]:
    """Return a fresh environment, with credentials of the role that the host has on AWS."""
    session = stack.aws("sts").assume_role(
        RoleArn=stack.outputs[ROLE], RoleSessionName=NAME, DurationSeconds=SESSION_S
    )["Credentials"]
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "PYTHONPATH": str(Path(stepbench.__file__).parents[1]),
        "AWS_ACCESS_KEY_ID": session["AccessKeyId"],
        "AWS_SECRET_ACCESS_KEY": session["SecretAccessKey"],
        "AWS_SESSION_TOKEN": session["SessionToken"],
        "AWS_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_ENDPOINT_URL": stack.endpoint or "",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "NO_PROXY": "127.0.0.1,localhost",
    }
