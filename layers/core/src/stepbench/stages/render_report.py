"""Task `RenderReport`: whatever the trials left becomes `summary.json`, `manifest.json` and `report.html`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from pydantic import BaseModel, ValidationError

from stepbench.analysis.application import trigger_shares
from stepbench.analysis.clock_check import clock_checks
from stepbench.analysis.comparability import group_results, place_in_run
from stepbench.analysis.trial_ratios import trial_replications
from stepbench.analysis.verdicts import MOST_VERDICTS, describe_emulated, plan_verdicts, take_turns
from stepbench.contracts.documents import EndedServers, Failure, SkippedTrials
from stepbench.contracts.identity import trial_tag
from stepbench.contracts.plan import Plan, TrialRef, TrialSpec
from stepbench.contracts.result import TrialResult
from stepbench.contracts.runs import RunRequest
from stepbench.contracts.tasks import PreparedTarget, RemainingObjects, TornDown
from stepbench.contracts.threshold_grammar import parse_judge, parse_threshold
from stepbench.errors import PlanError, StepbenchError
from stepbench.experiments.dataflow.analysis.media import dag_replications, medium_answers
from stepbench.experiments.dataflow.sentences import with_remaining
from stepbench.experiments.operations.scaling import scaling_curves
from stepbench.experiments.report.headline import run_output, with_regressions
from stepbench.experiments.report.page import render_page
from stepbench.observability import logger
from stepbench.planning import group_names
from stepbench.records.storage import layout
from stepbench.records.storage.run_store import find_served
from stepbench.report.regressions import render_failure
from stepbench.report.summary import (
    MISSING,
    NO_ACCOUNT,
    RunFacts,
    TrialStore,
    add_ended_server,
    add_failure,
    add_left,
    failed_trials,
    missing_result,
    skipped_result,
    summarise,
)
from stepbench.stages.run_manifest import add_costs, run_manifest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepbench.contracts.result import RunSummary
    from stepbench.contracts.runs import RenderReportInput, RenderReportOutput
    from stepbench.services import Services
    from stepbench.stages.run_regressions import RunRegressions

M = TypeVar("M", bound=BaseModel)


class Unreadable(NamedTuple):
    """A stored document that is not of this version."""

    why: str


def render_report(task: RenderReportInput, services: Services) -> RenderReportOutput:
    """
    Render what there is: a trial without a result appears with its failure, a run without trials too.

    Raises:
        RecordsUnavailableError: bucket or table do not answer.
    """
    specs = _specs(task.run_id, services)
    results = _results(task, specs, services)
    plan = services.runs.find_json(layout.run_key(task.run_id, "plan.json"))
    facts = RunFacts(
        run_id=task.run_id,
        plan=str(plan["name"]) if isinstance(plan, dict) and "name" in plan else task.run_id,
        started_at=task.started_at,
        finished_at=services.now().replace(microsecond=0),
        stopped=task.stopped,
    )
    parsed = _parsed(plan)
    thresholds = [parse_threshold(text) for text in parsed.thresholds] if parsed else []
    judge = parse_judge(parsed.judge) if parsed and parsed.judge else None
    summary = summarise(facts, results, thresholds, judge)
    over_trials = {**_over_trials(parsed, specs, summary), "clock_checks": clock_checks(specs, results)}
    summary = add_costs(summary.model_copy(update=over_trials), services)
    manifest = run_manifest(task.run_id, summary.trials, services)
    found = _regressions(summary, services)
    page = render_page(summary, results, manifest, plan, found.section if found else "")
    services.runs.put_model(layout.run_key(task.run_id, "summary.json"), summary)
    services.runs.put_model(layout.run_key(task.run_id, "manifest.json"), manifest)
    services.runs.put_bytes(layout.run_key(task.run_id, "report.html"), page.encode(), "text/html; charset=utf-8")
    output = run_output(summary, f"s3://{services.runs.bucket}/{layout.run_key(task.run_id, '')}".rstrip("/"))
    return output if found is None else with_regressions(output, found.announced, confirm=found.confirm)


def _over_trials(plan: Plan | None, specs: Sequence[TrialSpec], summary: RunSummary) -> dict[str, object]:
    """Return what a summary says of all trials together; of a plan that cannot be read, what trials say themselves."""
    trials = summary.trials
    listed = group_names(plan) if plan else ()  # in the order of the plan, since trials may be shuffled
    verdicts = plan_verdicts(trials, listed, summary.judge)
    found = {
        "groups": group_results(trials, listed),
        "scaling": scaling_curves(trials, listed),
        "verdicts": tuple(take_turns(verdicts, MOST_VERDICTS)),
        "media": medium_answers(trials, listed),
        "published_dags": dag_replications(specs, trials, listed),
        "published_ratios": trial_replications(specs, trials),
        "not_compared": describe_emulated(trials, listed),
        "verdicts_left_out": max(0, len(verdicts) - MOST_VERDICTS),
    }
    if plan is None:
        return found
    shares = tuple(trigger_shares(plan.applications, trials, listed))
    return {**found, "shares": shares, "question": plan.question or "", "description": plan.description or ""}


def _regressions(summary: RunSummary, services: Services) -> RunRegressions | None:
    """Return what changed over the plan's runs; None where nobody asked, and of a run that did not go through."""
    run = services.register.find(summary.run_id)
    request = _find(layout.run_key(summary.run_id, "request.json"), RunRequest, services)
    if run is None or request is None or request.detector is None or summary.status != "succeeded":
        return None
    # With numpy, for these runs alone.
    from stepbench.stages.run_regressions import RunRegressions, find_run_regressions  # noqa: PLC0415

    try:
        return find_run_regressions(run, summary, request.detector, services)
    except StepbenchError as error:  # the run went well: its report stays
        logger.exception("the run could not be set against earlier ones", extra={"run_id": summary.run_id})
        return RunRegressions(render_failure(summary.plan, str(error)), (), confirm=False)


def _results(task: RenderReportInput, specs: Sequence[TrialSpec], services: Services) -> tuple[TrialResult, ...]:
    errors = {outcome.trial: outcome.error for outcome in task.outcomes}
    run = [
        _with_tear_down(spec.ref, _result(spec, errors.get(spec.index), services, stopped=task.stopped), services)
        for spec in specs
    ]
    run = _with_ended_servers(task.run_id, run, services)
    return (*run, *_skipped(task.run_id, len(run), services))


def _with_tear_down(ref: TrialRef, result: TrialResult, services: Services) -> TrialResult:
    """Add what the tear-down noted, which comes after the trial's own result."""
    found = _read(layout.trial_key(ref, "removed.json"), TornDown, services)
    removed = found.removed if isinstance(found, TornDown) else ()
    if not found and (prepared := _find(layout.trial_key(ref, "made.json"), PreparedTarget, services)):
        result = add_left(result, prepared) if prepared.names else result
    summary = result.summary.model_copy(update={"removed": removed})
    if looked := _find(layout.trial_key(ref, "remaining.json"), RemainingObjects, services):
        summary = with_remaining(summary, looked.objects)
    return result.model_copy(update={"summary": summary})


def _with_ended_servers(run_id: str, results: list[TrialResult], services: Services) -> list[TrialResult]:
    """
    Add what the command line noted of servers of the local environment; of two that a trial needed, the first.

    A trial that went well was over by then: the command line sees its end some seconds later.
    """
    found = _find(layout.run_key(run_id, "ended.json"), EndedServers, services)
    servers = found.servers if found else ()
    needed = {trial: server for server in reversed(servers) for trial in server.trials}
    failed = {trial.index for trial in failed_trials([result.summary for result in results])}
    return [
        add_ended_server(result, needed[result.summary.index])
        if result.summary.index in needed.keys() & failed
        else result
        for result in results
    ]


def _skipped(run_id: str, first: int, services: Services) -> list[TrialResult]:
    """Return what the command line left out of the plan before the run, numbered after the run's own trials."""
    found = _find(layout.run_key(run_id, "skipped.json"), SkippedTrials, services)
    trials = found.trials if found else ()
    return [skipped_result(one.name, index, one.store, one.reason) for index, one in enumerate(trials, first)]


def _specs(run_id: str, services: Services) -> list[TrialSpec]:
    """Read all trials of the plan: `ValidatePlan` stored every one before the first began."""
    specs: list[TrialSpec] = []
    while True:
        ref = TrialRef(run_id=run_id, trial=len(specs), tag=trial_tag(run_id, len(specs)))
        spec = services.runs.find_model(layout.trial_key(ref, "trial.json"), TrialSpec)
        if spec is None:
            return specs
        specs.append(spec)


def _result(spec: TrialSpec, error: str | None, services: Services, *, stopped: bool) -> TrialResult:
    """
    Return what the trial left, with what only the end of the run knows.

    Args:
        spec: the trial.
        error: how its execution ended, "" for a success; None where the run knows no end of it.
        services: the results bucket.
        stopped: whether the run was.
    """
    ref = spec.ref
    found = _read(layout.trial_key(ref, "result.json"), TrialResult, services)
    if isinstance(found, TrialResult):
        if not error and not stopped:  # what a tear-down said that went well when it was tried again is over
            return found
        return add_failure(found, _failure(ref, error, services, default=""))
    if isinstance(found, Unreadable):
        failure = Failure(error="CorruptRecordsError", cause=found.why)
    else:
        default = "Stopped" if stopped else MISSING
        failure = _failure(ref, error, services, default=default) or Failure(error=default, cause="")
    missing = missing_result(spec.name, spec.index, _store(spec, ref, services), failure, spec.estimate_usd)
    return missing.model_copy(update={"summary": missing.summary.model_copy(update=place_in_run(spec))})


def _failure(ref: TrialRef, error: str | None, services: Services, *, default: str) -> Failure | None:
    """Return the trial's own account of what went wrong, else its execution's, or `default`; None for neither."""
    if found := _find(layout.trial_key(ref, "failure.json"), Failure, services):
        return found
    if error:
        return Failure(error=error, cause=NO_ACCOUNT)
    return Failure(error=default, cause=_CAUSES[default]) if default else None


_CAUSES = {
    "Stopped": "the run was stopped before this trial had a result",
    MISSING: "the trial left neither a result nor an account of what went wrong",
}


def _store(spec: TrialSpec, ref: TrialRef, services: Services) -> TrialStore:
    """Read what `PrepareTarget` noted; a trial that did not get so far says only which store it was meant for."""
    served = find_served(ref, services.runs)
    store = spec.plan.target.store
    if served is None:
        return TrialStore(store, "not reached", emulated=False)
    return TrialStore(store, served.provider, emulated=served.emulated)


def _find(key: str, model: type[M], services: Services) -> M | None:
    """Return a document that a report can do without, if it is there and can be read."""
    found = _read(key, model, services)
    return None if isinstance(found, Unreadable) else found


def _read(key: str, model: type[M], services: Services) -> M | Unreadable | None:
    """Read a document that a report can do without: damage to one is reported, and spoils no other trial's."""
    try:
        return services.runs.find_model(key, model)
    except ValidationError as error:
        first = error.errors()[0]
        logger.exception("unreadable document", extra={"key": key})
        return Unreadable(f"{key}: {'.'.join(map(str, first['loc']))}: {first['msg']}")


def _parsed(document: Any) -> Plan | None:  # noqa: ANN401 -- stored JSON
    """Parse the plan; return None for one that is not of this version."""
    try:
        return Plan.model_validate(document)
    except (ValidationError, PlanError):
        return None
