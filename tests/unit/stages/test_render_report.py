from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from tests.samples.operations import planned_results
from tests.samples.results import refused_result, sample_results
from tests.samples.services import MemoryServices, small_plan, stored_trial

from stepbench.analysis.verdicts import MOST_VERDICTS
from stepbench.contracts.documents import EndedServer, EndedServers, Failure, Manifest
from stepbench.contracts.identity import trial_tag
from stepbench.contracts.plan import TrialRef
from stepbench.contracts.regressions import DetectorSettings, NamedRun
from stepbench.contracts.result import RunSummary
from stepbench.contracts.runs import RenderReportInput, RunRecord, RunRequest, TrialOutcome
from stepbench.contracts.tasks import TornDown
from stepbench.experiments.report.headline import MAX_OUTPUT_BYTES
from stepbench.planning import expand, parse_plan
from stepbench.records.storage import layout
from stepbench.stages.render_report import render_report

if TYPE_CHECKING:
    from stepbench.contracts.plan import TrialSpec
    from stepbench.contracts.result import TrialResult
    from stepbench.contracts.runs import RenderReportOutput

RUN = "run-1"
STARTED = datetime(2023, 11, 14, 22, 0, tzinfo=UTC)
RESULTS = sample_results()


def store(memory: MemoryServices, trial: int, name: str = "s3", **target: Any) -> TrialRef:  # noqa: ANN401 -- JSON
    """Return a trial as `ValidatePlan` stores it."""
    return stored_trial(memory.services, small_plan(name, target=target), RUN, trial)


def leave(memory: MemoryServices, ref: TrialRef, result: TrialResult, **summary: Any) -> None:  # noqa: ANN401 -- fields
    """Leave a result as `AnalyseTrial` does, with some fields of its summary changed."""
    own = result.summary.model_copy(update={"index": ref.trial, **summary})
    changed = result.model_copy(update={"summary": own})
    memory.services.runs.put_model(layout.trial_key(ref, "result.json"), changed)


def render(memory: MemoryServices, *errors: str, stopped: bool = False) -> RenderReportOutput:
    """Render with these outcomes, one a trial."""
    outcomes = tuple(TrialOutcome(trial=trial, error=error) for trial, error in enumerate(errors))
    task = RenderReportInput(run_id=RUN, started_at=STARTED, outcomes=outcomes, stopped=stopped)
    return render_report(task, memory.services)


def summary_of(memory: MemoryServices) -> RunSummary:
    """Read the stored document."""
    return memory.services.runs.get_model(layout.run_key(RUN, "summary.json"), RunSummary)


def page_of(memory: MemoryServices) -> str:
    """Read the stored document."""
    return memory.bucket.objects[layout.run_key(RUN, "report.html")].decode()


def with_a_result() -> MemoryServices:
    """Return a run whose first trial, on PostgreSQL, went well."""
    memory = MemoryServices()
    leave(memory, store(memory, 0, "postgresql"), RESULTS[2])
    return memory


def failure_of(memory: MemoryServices) -> Failure:
    """Return why the first trial failed, by the stored summary."""
    failure = summary_of(memory).trials[0].failure
    assert failure is not None
    return failure


@pytest.fixture
def memory() -> MemoryServices:
    """Return a run with a result."""
    return with_a_result()


def test_a_run_that_went_well_succeeds_and_leaves_three_documents(memory: MemoryServices) -> None:
    """The execution's output is the headline and where the rest is."""
    memory.services.runs.put_json(layout.run_key(RUN, "plan.json"), {"name": "quick"})
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


@pytest.mark.parametrize(
    ("plan", "verdict"), [({}, "failed"), ({"thresholds": ["errors < 8 %"]}, "passed"), ({"thresholds": []}, "passed")]
)
def test_the_plans_thresholds_decide_the_verdict_and_not_the_status(plan: dict[str, Any], verdict: str) -> None:
    """15 of 215 writes are 7 %: the execution succeeds, so that its output can say so."""
    memory = MemoryServices()
    phases = [{"name": "unloaded", "load": [{"rate_per_s": 1, "count": 9}]}]
    store_trials(memory, {"target": {"store": "postgresql"}, "phases": phases}, **plan)
    refused = refused_result(RESULTS[2], {"57P01": 15})
    leave(memory, TrialRef(run_id=RUN, trial=0, tag=trial_tag(RUN, 0)), refused)
    output = render(memory, "")
    summary = summary_of(memory)
    assert (output.status, output.verdict, summary.verdict) == ("succeeded", verdict, verdict)
    missed = "threshold missed: errors < 1 %: 7.0 % in postgresql"
    assert (output.cause, len(output.headline)) == ((missed, 2) if verdict == "failed" else ("", 1))
    assert f'data-verdict="{verdict}"' in page_of(memory)


def test_a_trial_without_a_result_appears_with_its_own_account_of_the_failure(memory: MemoryServices) -> None:
    """`States.TaskFailed`, which is all that the parent knows on AWS, helps nobody."""
    ref = store(memory, 1, "etcd")
    failure = Failure(error="TargetUnavailableError", cause="no canary arrived")
    memory.services.runs.put_model(layout.trial_key(ref, "failure.json"), failure)
    memory.services.runs.put_json(layout.trial_key(ref, "provider.json"), {"provider": "etcd 3.5.1", "emulated": False})
    output = render(memory, "", "States.TaskFailed")
    assert (output.status, output.failed_trials) == ("failed", ("etcd",))
    assert output.cause.splitlines() == [
        "1 of 2 trials failed; what there is of them is in s3://results/runs/run-1/report.html",
        "etcd: TargetUnavailableError: no canary arrived",
    ]
    trial = summary_of(memory).trials[1]
    assert (trial.failure, trial.provider, trial.incomplete, trial.windows) == (failure, "etcd 3.5.1", True, ())
    assert "no canary arrived" in page_of(memory)


def test_a_server_that_ended_is_named_before_the_trials_own_words(memory: MemoryServices) -> None:
    """They say "refused", and not that the server was killed; the trial before it ended keeps its numbers."""
    ref = store(memory, 1, "postgresql")
    memory.services.runs.put_model(layout.trial_key(ref, "failure.json"), Failure(error="Refused", cause="connect"))
    store(memory, 2, "postgresql")
    server = EndedServer(
        server="postgresql",
        version="18.6",
        pids=(7, 8),
        how="was ended by SIGKILL",
        seen_at="2026-01-02T00:00:00+00:00",
        log=("PANIC: <no> space",),
        trials=(1, 2),
    )
    memory.services.runs.put_model(layout.run_key(RUN, "ended.json"), EndedServers(servers=(server,)))
    assert render(memory, "", "States.TaskFailed", "").failed_trials == ("postgresql", "postgresql")
    before, during, after = (trial.failure for trial in summary_of(memory).trials)
    said = "postgresql (18.6, pid 7, 8) was ended by SIGKILL, seen at 2026-01-02T00:00:00+00:00."
    log = "The last lines of its log:\nPANIC: <no> space"
    assert before is None
    assert during == Failure(error="ServerEndedError", cause=f"{said}\nThe trial: Refused: connect\n{log}")
    assert after == Failure(error="ServerEndedError", cause=f"{said}\n{log}")
    assert "PANIC: &lt;no&gt; space" in page_of(memory)


def test_a_server_whose_end_was_seen_after_a_trial_had_gone_well_takes_nothing_from_it(memory: MemoryServices) -> None:
    """The command line reads every three seconds which trials have ended, and four times a second of servers."""
    server = EndedServer(
        server="postgresql", version="18.6", pids=(7,), how="is gone", seen_at="2026-01-02", log=(), trials=(0,)
    )
    memory.services.runs.put_model(layout.run_key(RUN, "ended.json"), EndedServers(servers=(server,)))
    assert render(memory, "").status == "succeeded"
    assert summary_of(memory).trials[0].failure is None


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


def test_an_execution_that_failed_after_its_analysis_does_not_pass(memory: MemoryServices) -> None:
    """Its result is whole, but its tear-down may not be: the run must not end green."""
    output = render(memory, "States.Timeout")
    assert (output.status, output.failed_trials) == ("failed", ("postgresql",))
    assert failure_of(memory).error == "States.Timeout"


def test_a_tear_down_that_went_well_when_it_was_tried_again_fails_nothing(memory: MemoryServices) -> None:
    """The first try leaves its account, which nobody takes back; the execution has succeeded."""
    ref = TrialRef(run_id=RUN, trial=0, tag=trial_tag(RUN, 0))
    account = Failure(error="TargetUnavailableError", cause="connect: refused")
    memory.services.runs.put_model(layout.trial_key(ref, "failure.json"), account)
    assert render(memory, "").status == "succeeded"
    assert render(memory, "States.TaskFailed").status == "failed"
    assert failure_of(memory) == account


def test_an_incomplete_result_fails_the_run_though_its_execution_did_not() -> None:
    """Partial numbers are shown, never passed off as whole."""
    memory = MemoryServices()
    leave(memory, store(memory, 0, "etcd"), RESULTS[3], failure=None)
    assert render(memory, "").status == "failed"


def test_a_stopped_run_says_so_and_keeps_what_was_finished(memory: MemoryServices) -> None:
    """After Ctrl-C, the trials before it are as good as ever."""
    store(memory, 1, "etcd")
    output = render(memory, "", stopped=True)
    assert (output.status, output.failed_trials) == ("stopped", ("etcd",))
    assert summary_of(memory).trials[0].failure is None


def test_a_run_stopped_after_its_last_trial_names_no_failure(memory: MemoryServices) -> None:
    """Nothing is missing then."""
    output = render(memory, "", stopped=True)
    assert (output.status, output.cause) == ("stopped", "stopped")


def test_a_damaged_result_spoils_no_other_trial() -> None:
    """The report exists either way, and says which document is damaged."""
    memory = MemoryServices()
    ref = store(memory, 0)
    memory.services.runs.put_json(layout.trial_key(ref, "result.json"), {"summary": 1})
    leave(memory, store(memory, 1, "postgresql"), RESULTS[2])
    output = render(memory, "", "")
    assert (output.failed_trials, failure_of(memory).error) == (("s3",), "CorruptRecordsError")
    assert "result.json: summary" in failure_of(memory).cause


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
    assert output.cause.endswith("more")
    assert len(json.dumps(output.model_dump(mode="json"))) < MAX_OUTPUT_BYTES


def test_what_tear_downs_have_removed_is_in_summary_and_output(memory: MemoryServices) -> None:
    """Each trial's by name; of a trial that was torn down by the sweeper, too."""
    refs = [store(memory, trial) for trial in (1, 2)]
    for ref in refs:
        removed = TornDown(removed=(f"objects {ref.tag}*", "a thing that both had"))
        memory.services.runs.put_model(layout.trial_key(ref, "removed.json"), removed)
    output = render(memory, "", "States.Timeout", "States.Timeout")
    assert [trial.removed for trial in summary_of(memory).trials] == [
        (),
        *((f"objects {ref.tag}*", "a thing that both had") for ref in refs),
    ]
    assert output.removed == (f"objects {refs[0].tag}*", "a thing that both had", f"objects {refs[1].tag}*")


def test_rendering_twice_gives_the_same_documents(memory: MemoryServices) -> None:
    """Step Functions may run the task again after a time-out."""
    render(memory, "")
    first = dict(memory.bucket.objects)
    render(memory, "")
    assert memory.bucket.objects == first


def leave_out(memory: MemoryServices, *trials: dict[str, str]) -> None:
    """Store what the command line notes of a plan that this machine cannot run whole."""
    memory.services.runs.put_json(layout.run_key(RUN, "skipped.json"), {"trials": trials})


def test_a_skipped_trial_is_shown_with_its_reason_and_fails_nothing(memory: MemoryServices) -> None:
    """Reported, never replaced in silence; the last lines of a log belong to the terminal, not to the report."""
    leave_out(memory, {"name": "etcd", "store": "etcd", "reason": "etcd is not installed.\n--- end of etcd.log\nx"})
    output = render(memory, "")
    assert (output.status, output.failed_trials, output.cause) == ("succeeded", (), "")
    assert output.headline[1] == "etcd (skipped)"
    trial = summary_of(memory).trials[1]
    assert (trial.name, trial.index, trial.store, trial.provider) == ("etcd", 1, "etcd", "not started")
    assert (trial.accounting, trial.windows, trial.failure, trial.incomplete) == (None, (), None, False)
    [caveat] = trial.caveats
    assert (caveat.kind, caveat.text) == ("skipped", "etcd cannot run on this machine: etcd is not installed.")
    assert caveat.remedy
    assert caveat.text in page_of(memory)


def test_several_skipped_trials_are_numbered_after_the_run_s_own(memory: MemoryServices) -> None:
    """An index names one trial of the report."""
    leave_out(memory, *({"name": name, "store": "etcd", "reason": "no wheel"} for name in ("etcd", "etcd-2")))
    render(memory, "States.Timeout")
    summary = summary_of(memory)
    assert summary.status == "failed"
    assert [(trial.index, trial.name) for trial in summary.trials] == [(0, "postgresql"), (1, "etcd"), (2, "etcd-2")]


def store_trials(
    memory: MemoryServices,
    *trials: dict[str, Any],
    **fields: Any,  # noqa: ANN401 -- a plan's
) -> list[tuple[TrialRef, TrialSpec]]:
    """Store a plan of these trials, shuffled, as `ValidatePlan` does, and return what it expands into."""
    plan = parse_plan({"name": "x", "trials": list(trials), "order": "random", **fields})
    memory.services.runs.put_model(layout.run_key(RUN, "plan.json"), plan)
    stored = [(TrialRef(run_id=RUN, trial=spec.index, tag=spec.tag), spec) for spec in expand(plan, RUN)]
    for ref, spec in stored:
        memory.services.runs.put_model(layout.trial_key(ref, "trial.json"), spec)
    return stored


def stored_plan(memory: MemoryServices, **plan: Any) -> None:  # noqa: ANN401 -- a plan's fields
    """Store a plan with its trials, as `ValidatePlan` does."""
    phases = [{"name": "unloaded", "load": [{"rate_per_s": 1, "count": 9}]}]
    trial = {"target": {"store": "postgresql"}, "phases": phases}
    for ref, spec in store_trials(memory, {**trial, **plan}):
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


def test_a_summary_says_how_many_comparisons_it_leaves_out() -> None:
    """Of 100 values 99 are set against the first."""
    memory = MemoryServices()
    for number in range(100):
        ref = store(memory, number)
        leave(memory, ref, RESULTS[2], name=f"t{number}", group=f"t{number}", point={"writers": number + 1})
    render(memory)
    summary = summary_of(memory)
    assert (len(summary.verdicts), summary.verdicts_left_out) == (MOST_VERDICTS, 99 - MOST_VERDICTS)


def test_operations_are_compared_with_the_first_value_of_the_plan() -> None:
    """Though another was run first; and a trial without a result is described, and in no comparison."""
    memory = MemoryServices()
    phases = [{"name": "steady", "closed": {"clients": 5, "duration_s": 8}}]
    trial = {"experiment": "operations", "workload": {}, "phases": phases}
    stores = ("redis", "etcd", "postgresql", "dynamodb")
    stored = store_trials(memory, *({**trial, "target": {"store": store}} for store in stores))
    assert stored[0][1].name != "redis"
    for (ref, spec), result in zip(stored, planned_results([spec for _, spec in stored]), strict=True):
        if spec.name != "etcd":
            leave(memory, ref, result)
    render(memory)
    summary = summary_of(memory)
    compared = [(each.b.group, each.a.group) for each in summary.verdicts if each.primary]
    assert compared == [("postgresql", "redis"), ("dynamodb", "redis")]
    (missing,) = (trial for trial in summary.trials if trial.name == "etcd")
    assert missing.setup["phases[steady].closed.clients"] == 5


def test_a_plan_of_another_version_is_no_obstacle() -> None:
    """Groups then come in the order of execution."""
    memory = MemoryServices()
    stored_plan(memory, repeats=3)
    memory.services.runs.put_json(layout.run_key(RUN, "plan.json"), {"name": "quick", "trials": "many"})
    render(memory, "")
    assert [group.name for group in summary_of(memory).groups] == ["postgresql"]


def test_a_baseline_that_is_gone_costs_the_section_and_not_the_report() -> None:
    """The run went well: its numbers are stored, with why they are set against nothing."""
    memory = MemoryServices()
    leave(memory, store(memory, 0), RESULTS[0], incomplete=False)
    known = {"run_id": RUN, "team": "default", "plan": "p", "state": "running", "submitted_at": STARTED}
    memory.register.add(RunRecord.model_validate(known))
    gone = DetectorSettings(baseline=NamedRun(run_id="r-gone"))
    memory.services.runs.put_model(layout.run_key(RUN, "request.json"), RunRequest(plan="p", regressions=gone))
    output = render(memory, "")
    assert (output.status, output.regressions, output.confirm) == ("succeeded", (), False)
    assert summary_of(memory).trials
    assert "r-gone" in page_of(memory)
