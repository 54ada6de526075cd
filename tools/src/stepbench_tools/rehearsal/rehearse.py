"""
The rehearsal itself: a deployment and its runs, everything deleted whatever happens, and what came of it.

Its parts are asked for by the template's parameters (`plans.yaml`), within what all of them may cost.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError
from ruamel.yaml import YAML

from stepbench.clock import SystemClock
from stepbench.costs.prices import bill
from stepbench.costs.standing import DEFAULT_TYPES, Deployment, standing
from stepbench.errors import LocalEnvironmentError, PlanError, Problem, StepbenchError
from stepbench.experiments.estimates import budgeted
from stepbench.planning import expand, expanded, parse_plan
from stepbench.planning.wall_time import AWS
from stepbench_tools.local.deploy import build, exclusive_lock
from stepbench_tools.local.executions import Executions, RunSpec, new_run_id
from stepbench_tools.local.running import Terminal, execute
from stepbench_tools.local.sam import deploy_arguments, run_sam
from stepbench_tools.local.streams import interruptible, shielded
from stepbench_tools.local.terminal import progress_display
from stepbench_tools.rehearsal.account import TAG, delete_everything
from stepbench_tools.rehearsal.judges import STOPPING, RehearsedRun, judge_all, write

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from rich.console import Console

    from stepbench.contracts.plan import Plan
    from stepbench.contracts.result import RunSummary
    from stepbench.progress import Snapshot
    from stepbench_tools.local.paths import Paths
    from stepbench_tools.local.running import RunOutcome
    from stepbench_tools.rehearsal.account import Account
    from stepbench_tools.rehearsal.judges import Rehearsal


OVERHEAD_USD = 0.05
"""Artefacts and their requests, controlling functions, sweeps, what deploying and deleting logs."""
LEAST_H, MOST_H, DELETE_H = 1.0, 3.0, 1.0
"""How long a rehearsal goes on; its deletion takes an hour more at most, by CloudFormation's own limits."""


def read_parts() -> dict[str, Any]:
    """Return each part by name, in the order in which they are run: its `trials`, and the `parameters` that ask."""
    text = files("stepbench_tools.rehearsal").joinpath("plans.yaml").read_text("utf-8")
    parts: dict[str, Any] = YAML(typ="safe", pure=True).load(text)
    return {name: part for name, part in parts.items() if not name.startswith("_")}


def find_plans(parameters: Mapping[str, str]) -> dict[str, Plan]:
    """Return the plan of each part that the template's parameters ask for."""

    def has(name: str, wanted: str) -> bool:
        value = parameters.get(name, "")
        return value == wanted or (wanted == "ANY" and value not in {"", "off"})

    parts = read_parts().items()
    asked = {name: part for name, part in parts if all(has(*each) for each in part.get("parameters", {}).items())}
    return {name: parse_plan({"name": f"rehearse-{name}", "trials": part["trials"]}) for name, part in asked.items()}


def budget_hours(plans: Mapping[str, Plan], parameters: Mapping[str, str], budget_usd: float) -> tuple[float, float]:
    """
    Return how many hours the budget allows before everything is deleted, and what that may cost, deletion included.

    Prices are us-east-1's list prices.

    Raises:
        PlanError: that is less than an hour.
    """
    fixed_usd = OVERHEAD_USD
    fixed_usd += sum(budgeted(trial.plan).total_usd for plan in plans.values() for trial in expanded(plan))
    amounts = standing(Deployment(options={**DEFAULT_TYPES, **parameters})).values()
    hour_usd = bill(*(amount for each in amounts for amount in each)).total_usd
    if (least_usd := fixed_usd + hour_usd * (LEAST_H + DELETE_H)) > budget_usd:
        message = f"is below the ${least_usd:.2f} that these parameters may cost in an hour and that of their deletion"
        raise PlanError([Problem("BUDGET", f"{budget_usd:g}", message, f"Give at least {least_usd + 0.005:.2f}.")])
    hours = min(MOST_H, (budget_usd - fixed_usd) / hour_usd - DELETE_H) if hour_usd else MOST_H
    return hours, fixed_usd + hour_usd * (hours + DELETE_H)


DEPLOY_S = 3_600
"""Longer than CloudFormation itself waits for what the stack makes."""


@dataclass
class RunLog:
    """What is known so far, in `folder` as soon as it is known, without the account's number."""

    folder: Path
    account: Account
    assumptions: Mapping[str, str]
    found: Rehearsal
    summaries: dict[str, RunSummary] = field(default_factory=dict)

    def note(self, **changes: Any) -> None:  # noqa: ANN401 -- fields of `Rehearsal`
        """Change what is known, judge by it, and write it."""
        found = self.found.model_copy(update=changes)
        judged = judge_all(self.assumptions, found, self.summaries)
        self.found = found.model_copy(update={"assumptions": judged})
        write(self.folder, self.found, self.account.number)


@dataclass
class Rehearser:
    """It makes one rehearsal, in the main thread; `parameters` are the template's, all is over at `until_s`."""

    account: Account
    paths: Paths
    console: Console
    log: RunLog
    parameters: Mapping[str, str]
    until_s: float = float("inf")

    def rehearse(self, plans: Mapping[str, Plan], hours: float) -> None:
        """Deploy, run and delete everything; an interrupt, or any error, goes on with the deletion."""
        ended = ""
        try:
            with interruptible():
                self._deploy(hours * 3_600)
                for part, plan in plans.items():
                    self._run(part, plan)
        except KeyboardInterrupt:
            ended = "it was interrupted"
        except (StepbenchError, ClientError, BotoCoreError, OSError) as error:
            ended = str(error)
        finally:
            with shielded():
                self.notify(f"ending early: {ended}" if ended else "all parts were run")
                self.notify("deleting everything; interrupts are ignored until that is done")
                self.log.note(ended=ended)
                deletion = delete_everything(self.account, self.log.found.stack, self.notify)
                self.log.note(deletion=deletion, ended_at=now())

    def _deploy(self, limit_s: float) -> None:
        """Build, and deploy with a bucket for artefacts; both have the rehearsal's tag."""
        stack, bucket = self.log.found.stack, self.log.found.artefacts
        self.notify("building (the first time takes minutes)")
        with exclusive_lock(self.paths.build, self.notify):  # one build for all environments of a clone
            build(self.paths, self.parameters["PythonRuntime"], architecture=self.parameters["Architecture"])
            self.notify("deploying")
            began_s = time.monotonic()
            self.until_s = began_s + limit_s
            _make_bucket(self.account, bucket, stack)
            arguments = [*deploy_arguments(self.paths, stack, self.parameters, bucket), "--tags", f"{TAG}={stack}"]
            try:
                run_sam(self.paths, arguments, timeout_s=min(DEPLOY_S, limit_s), account=self.account.variables)
            except StepbenchError as error:
                self.log.note(undeployed=str(error))
                raise
        self.log.note(deploy_s=time.monotonic() - began_s)

    def _left_s(self) -> float:
        left_s = self.until_s - time.monotonic()
        if left_s <= 0:
            message = "the time that the budget allows is up"
            raise LocalEnvironmentError(message)
        return left_s

    def _run(self, part: str, plan: Plan) -> None:
        """Run a part's plan; one that fails is noted, and the next is tried."""
        stack, at = self.account.stack(self.log.found.stack), datetime.now(UTC)
        run_id = new_run_id(plan.name, at)
        run = Executions(stack, RunSpec(run_id, expand(plan, run_id), at))
        document = plan.model_dump(mode="json", exclude_none=True)
        self.notify(f"run {run_id}")
        with progress_display(self.console, AWS) as show:
            terminal = Terminal(self.notify, _interrupting(show) if part == STOPPING else show)
            folder = self.log.folder / "runs"
            outcome = execute(run, document, folder, terminal, SystemClock(), limit_s=self._left_s())
        self._note(part, outcome)
        if outcome.error:
            raise outcome.error
        if outcome.stopped and part != STOPPING:
            raise KeyboardInterrupt

    def _note(self, part: str, outcome: RunOutcome) -> None:
        status, failure = "", str(outcome.error or outcome.cause or "")
        if outcome.summary is not None:
            self.log.summaries[part] = outcome.summary
            status = outcome.summary.status
        if not failure and status != ("stopped" if part == STOPPING else "succeeded"):
            failure = f"it ended as {status}"
        run = RehearsedRun(part=part, run_id=outcome.run_id, status=status, failure=failure)
        self.log.note(runs=(*self.log.found.runs, run))

    def notify(self, text: str) -> None:
        """Print a sentence for people."""
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)


def _interrupting(show: Callable[[Snapshot], None]) -> Callable[[Snapshot], None]:
    """Return what shows progress, and interrupts the run as Ctrl-C does once load is offered."""

    def show_until_load(snapshot: Snapshot) -> None:
        show(snapshot)
        if snapshot.sent:
            raise KeyboardInterrupt

    return show_until_load


def _make_bucket(account: Account, bucket: str, stack: str) -> None:
    s3, region = account.client("s3"), account.region
    placed = {} if region == "us-east-1" else {"CreateBucketConfiguration": {"LocationConstraint": region}}
    s3.create_bucket(Bucket=bucket, **placed)
    s3.put_bucket_tagging(Bucket=bucket, Tagging={"TagSet": [{"Key": TAG, "Value": stack}]})


def now() -> str:
    """Return the time to the second, UTC."""
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S+00:00}"
