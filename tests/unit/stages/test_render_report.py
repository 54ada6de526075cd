from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from stepbench.contracts.result import Failure, Manifest, RunSummary
from stepbench.contracts.tasks import RenderReportInput, TrialOutcome, TrialRef
from stepbench.planning import expand, parse_plan
from stepbench.records import layout
from stepbench.stages.render_report import MAX_CAUSE_CHARS, render_report
from stepbench.testing.memory_services import MemoryServices
from stepbench.testing.sample_plans import planned_results
from stepbench.testing.sample_results import sample_results
from stepbench.testing.trials import small_plan, stored_trial

if TYPE_CHECKING:
    from stepbench.contracts.result import TrialResult
    from stepbench.contracts.tasks import RenderReportOutput

RUN = "run-1"
STARTED = datetime(2023, 11, 14, 22, 0, tzinfo=UTC)
RESULTS = sample_results()


def store(memory: MemoryServices, trial: int, name: str = "s3", **target: Any) -> TrialRef:  # noqa: ANN401 -- JSON
    """A trial as `ValidatePlan` stores it."""
    return stored_trial(memory.services, small_plan(name, target=target), RUN, trial)


def leave(memory: MemoryServices, ref: TrialRef, result: TrialResult, **summary: Any) -> None:  # noqa: ANN401 -- fields
    """A result as `AnalyseTrial` leaves it, with some fields of its summary changed."""
    own = result.summary.model_copy(update={"index": ref.trial, **summary})
    changed = result.model_copy(update={"summary": own})
    memory.services.runs.put_model(layout.trial_key(ref, "result.json"), changed)


def render(memory: MemoryServices, *errors: str, stopped: bool = False) -> RenderReportOutput:
    """Render with these outcomes, one a trial."""
    outcomes = tuple(TrialOutcome(trial=trial, error=error) for trial, error in enumerate(errors))
    task = RenderReportInput(run_id=RUN, started_at=STARTED, outcomes=outcomes, stopped=stopped)
    return render_report(task, memory.services)


def summary_of(memory: MemoryServices) -> RunSummary:
    """What was stored."""
    return memory.services.runs.get_model(layout.run_key(RUN, "summary.json"), RunSummary)


def page_of(memory: MemoryServices) -> str:
    """What was stored."""
    return memory.bucket.objects[layout.run_key(RUN, "report.html")].decode()


def test_a_run_that_went_well_succeeds_and_leaves_three_documents() -> None:
    """The execution's output is the headline and where the rest is."""
    memory = MemoryServices()
    memory.services.runs.put_json(layout.run_key(RUN, "plan.json"), {"name": "quick"})
    leave(memory, store(memory, 0, "postgresql"), RESULTS[2])
    output = render(memory, "")
    assert (output.status, output.failed_trials, output.cause) == ("succeeded", (), "")
    assert output.headline == ("postgresql: n 200, p50 6.36 ms [6.13, 6.60], lost 0",)
    assert (output.report, output.summary) == (
        "s3://results/runs/run-1/report.html",
        "s3://results/runs/run-1/summary.json",
    )
    summary = summary_of(memory)
    assert (summary.plan, summary.status, summary.started_at) == ("quick", "succeeded", "2023-11-14T22:00:00+00:00")
    assert summary.finished_at == "2023-11-14T22:13:20+00:00"
    assert memory.services.runs.get_model(layout.run_key(RUN, "manifest.json"), Manifest).run_id == RUN
    assert 'data-status="succeeded"' in page_of(memory)
    assert "&#34;name&#34;: &#34;quick&#34;" in page_of(memory)


def test_a_trial_without_a_result_appears_with_its_own_account_of_the_failure() -> None:
    """`States.TaskFailed`, which is all that the parent knows on AWS, helps nobody."""
    memory = MemoryServices()
    leave(memory, store(memory, 0, "postgresql"), RESULTS[2])
    ref = store(memory, 1, "etcd")
    failure = Failure(error="TargetUnavailableError", cause="no canary arrived")
    memory.services.runs.put_model(layout.trial_key(ref, "failure.json"), failure)
    memory.services.runs.put_json(layout.trial_key(ref, "provider.json"), {"provider": "etcd 3.5.1", "emulated": False})
    output = render(memory, "", "States.TaskFailed")
    assert (output.status, output.failed_trials) == ("failed", ("etcd",))
    assert output.cause == "1 of 2 trials failed: etcd: TargetUnavailableError"
    trial = summary_of(memory).trials[1]
    assert (trial.failure, trial.provider, trial.incomplete, trial.windows) == (failure, "etcd 3.5.1", True, ())
    assert "no canary arrived" in page_of(memory)


@pytest.mark.parametrize(
    ("errors", "stopped", "error"),
    [
        (("Lambda.Unknown",), False, "Lambda.Unknown"),
        (("",), False, "MissingResult"),
        ((), False, "MissingResult"),
        ((), True, "Stopped"),
    ],
)
def test_a_trial_that_left_nothing_still_has_a_reason(errors: tuple[str, ...], *, stopped: bool, error: str) -> None:
    """Whatever ended it, the reader finds the trial, its store, and a name for what happened."""
    memory = MemoryServices()
    store(memory, 0)
    assert render(memory, *errors, stopped=stopped).status == ("stopped" if stopped else "failed")
    trial = summary_of(memory).trials[0]
    assert trial.failure is not None
    assert (trial.failure.error, trial.store, trial.provider, trial.emulated) == (error, "s3", "not reached", False)


def test_an_execution_that_failed_after_its_analysis_does_not_pass() -> None:
    """Its result is whole, but its tear-down may not be: the run must not end green."""
    memory = MemoryServices()
    leave(memory, store(memory, 0, "postgresql"), RESULTS[2])
    output = render(memory, "States.Timeout")
    assert (output.status, output.failed_trials) == ("failed", ("postgresql",))
    failure = summary_of(memory).trials[0].failure
    assert failure is not None
    assert failure.error == "States.Timeout"


def test_an_incomplete_result_fails_the_run_though_its_execution_did_not() -> None:
    """Partial numbers are shown, never passed off as whole."""
    memory = MemoryServices()
    leave(memory, store(memory, 0, "etcd"), RESULTS[3], failure=None)
    assert render(memory, "").status == "failed"


def test_a_stopped_run_says_so_and_keeps_what_was_finished() -> None:
    """After Ctrl-C, the trials before it are as good as ever."""
    memory = MemoryServices()
    leave(memory, store(memory, 0, "postgresql"), RESULTS[2])
    store(memory, 1, "etcd")
    output = render(memory, "", stopped=True)
    assert (output.status, output.failed_trials) == ("stopped", ("etcd",))
    assert summary_of(memory).trials[0].failure is None


def test_a_run_stopped_after_its_last_trial_names_no_failure() -> None:
    """Nothing is missing then."""
    memory = MemoryServices()
    leave(memory, store(memory, 0, "postgresql"), RESULTS[2])
    output = render(memory, "", stopped=True)
    assert (output.status, output.cause) == ("stopped", "stopped")


def test_a_damaged_result_spoils_no_other_trial() -> None:
    """The report exists either way, and says which document is damaged."""
    memory = MemoryServices()
    ref = store(memory, 0)
    memory.services.runs.put_json(layout.trial_key(ref, "result.json"), {"summary": 1})
    leave(memory, store(memory, 1, "postgresql"), RESULTS[2])
    output = render(memory, "", "")
    assert output.failed_trials == ("s3",)
    failure = summary_of(memory).trials[0].failure
    assert failure is not None
    assert failure.error == "CorruptRecordsError"
    assert "result.json: summary" in failure.cause


def test_a_run_without_trials_fails_with_a_page_that_helps() -> None:
    """The Map itself may fail before any trial began."""
    memory = MemoryServices()
    output = render(memory)
    assert (output.status, output.cause, output.headline) == ("failed", "the run has no trials", ())
    assert "Nothing ran" in page_of(memory)
    assert summary_of(memory).plan == RUN


def test_the_output_stays_small_whatever_failed() -> None:
    """States pass 256 KiB at most; a hundred long errors must not fail the run a second time."""
    memory = MemoryServices()
    for trial in range(100):
        store(memory, trial)
    output = render(memory, *["E" * 200] * 100)
    assert len(output.cause) == MAX_CAUSE_CHARS
    assert len(json.dumps(output.model_dump(mode="json"))) < 64 * 1024


def test_rendering_twice_gives_the_same_documents() -> None:
    """Step Functions may run the task again after a time-out."""
    memory = MemoryServices()
    leave(memory, store(memory, 0, "postgresql"), RESULTS[2])
    render(memory, "")
    first = dict(memory.bucket.objects)
    render(memory, "")
    assert memory.bucket.objects == first


def leave_out(memory: MemoryServices, *trials: dict[str, str]) -> None:
    """What the command line notes of a plan that this machine cannot run whole."""
    memory.services.runs.put_json(layout.run_key(RUN, "skipped.json"), {"trials": trials})


def test_a_skipped_trial_is_shown_with_its_reason_and_fails_nothing() -> None:
    """Reported, never replaced in silence; the last lines of a log belong to the terminal, not to the report."""
    memory = MemoryServices()
    leave(memory, store(memory, 0, "postgresql"), RESULTS[2])
    leave_out(memory, {"name": "etcd", "store": "etcd", "reason": "etcd is not installed.\n--- end of etcd.log\nx"})
    output = render(memory, "")
    assert (output.status, output.failed_trials, output.cause) == ("succeeded", (), "")
    assert output.headline[1] == "etcd (skipped)"
    trial = summary_of(memory).trials[1]
    assert (trial.name, trial.index, trial.store, trial.provider) == ("etcd", 1, "etcd", "not started")
    assert (trial.accounting, trial.windows, trial.failure, trial.incomplete) == (None, (), None, False)
    [caveat] = trial.caveats
    assert (caveat.kind, caveat.text) == ("skipped", "etcd could not start on this machine: etcd is not installed.")
    assert caveat.remedy
    assert caveat.text in page_of(memory)


def test_several_skipped_trials_are_numbered_after_the_run_s_own() -> None:
    """An index names one trial of the report."""
    memory = MemoryServices()
    leave(memory, store(memory, 0, "postgresql"), RESULTS[2])
    leave_out(memory, *({"name": name, "store": "etcd", "reason": "no wheel"} for name in ("etcd", "etcd-2")))
    render(memory, "States.Timeout")
    summary = summary_of(memory)
    assert summary.status == "failed"
    assert [(trial.index, trial.name) for trial in summary.trials] == [(0, "postgresql"), (1, "etcd"), (2, "etcd-2")]


def stored_plan(memory: MemoryServices, **plan: Any) -> None:  # noqa: ANN401 -- a plan's fields
    """As `ValidatePlan` stores it, with its trials."""
    phases = [{"name": "unloaded", "load": [{"rate_per_s": 1, "count": 9}]}]
    trial = {"target": {"store": "postgresql"}, "phases": phases}
    parsed = parse_plan({"name": "x", "trials": [{**trial, **plan}], "order": "random"})
    memory.services.runs.put_model(layout.run_key(RUN, "plan.json"), parsed)
    for spec in expand(parsed, RUN):
        ref = TrialRef(run_id=RUN, trial=spec.index, tag=spec.tag)
        memory.services.runs.put_model(layout.trial_key(ref, "trial.json"), spec)
        if spec.index:
            place = {"group": spec.group, "repeat": spec.repeat, "point": spec.point}
            leave(memory, ref, RESULTS[2], **place)


def test_repeats_are_taken_together_in_the_order_of_the_plan() -> None:
    """A trial that left no result has its place among its group's, too."""
    memory = MemoryServices()
    stored_plan(memory, matrix={"writers": [1, 2, 3]}, repeats=4)
    render(memory, "States.Timeout")
    summary = summary_of(memory)
    assert [group.name for group in summary.groups] == [f"postgresql.writers-{n}" for n in (1, 2, 3)]
    assert sorted(index for group in summary.groups for index in group.trials) == list(range(12))
    missing = summary.trials[0]
    (its_group,) = (group for group in summary.groups if group.name == missing.group)
    assert (missing.repeat, missing.point, its_group.trials[0]) == (0, its_group.point, 0)
    assert its_group.windows[0].runs == 3
    assert all(group.windows[0].p50.value == pytest.approx(6.36, abs=0.005) for group in summary.groups)


def test_operations_are_compared_with_the_first_value_of_the_plan() -> None:
    """Though another was run first; and a trial without a result is described, and in no comparison."""
    memory = MemoryServices()
    phases = [{"name": "steady", "closed": {"clients": 5, "duration_s": 8}}]
    trial = {"experiment": "operations", "workload": {}, "phases": phases}
    stores = ("redis", "etcd", "postgresql", "dynamodb")
    trials = [{**trial, "target": {"store": store}} for store in stores]
    plan = parse_plan({"name": "x", "trials": trials, "order": "random"})
    memory.services.runs.put_model(layout.run_key(RUN, "plan.json"), plan)
    specs = expand(plan, RUN)
    assert specs[0].name != "redis"
    for spec, result in zip(specs, planned_results(specs), strict=True):
        ref = TrialRef(run_id=RUN, trial=spec.index, tag=spec.tag)
        memory.services.runs.put_model(layout.trial_key(ref, "trial.json"), spec)
        if spec.name != "etcd":
            leave(memory, ref, result)
    render(memory)
    summary = summary_of(memory)
    assert [(each.group_b, each.group_a) for each in summary.settings] == [
        ("postgresql", "redis"),
        ("dynamodb", "redis"),
    ]
    (missing,) = (trial for trial in summary.trials if trial.name == "etcd")
    assert missing.setup["phases[steady].closed.clients"] == 5


def test_a_plan_of_another_version_is_no_obstacle() -> None:
    """Groups then come in the order of execution."""
    memory = MemoryServices()
    stored_plan(memory, repeats=3)
    memory.services.runs.put_json(layout.run_key(RUN, "plan.json"), {"name": "quick", "trials": "many"})
    render(memory, "")
    assert [group.name for group in summary_of(memory).groups] == ["postgresql"]
