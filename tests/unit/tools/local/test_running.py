"""Watching a run whose stack has gone, and what is done for the report of one that was stopped."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import repeat
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from botocore.exceptions import EndpointConnectionError
from tests.samples.services import MemoryServices, small_plan
from tests.support.fake_clock import FakeClock

from stepbench.contracts.documents import EndedServer, Failure
from stepbench.contracts.plan import Plan
from stepbench.contracts.runs import RenderReportInput
from stepbench.errors import LocalEnvironmentError, PlanError, RecordsUnavailableError
from stepbench.planning import expand
from stepbench.progress import PhaseStart
from stepbench.records.storage import layout
from stepbench.stages.render_report import render_report
from stepbench_tools.local import running
from stepbench_tools.local.executions import Executions
from stepbench_tools.local.fetching import NotFetchedError, RunFolder
from stepbench_tools.local.observer import LOST_S, Observer, watch
from stepbench_tools.local.results import find_run
from stepbench_tools.local.running import NotTornDownError, RunAbandonedError, RunOutcome, _collect

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from stepbench_tools.local.executions import RunSpec
    from stepbench_tools.local.stack import Stack
    from stepbench_tools.local.state import ServerWatch


def started(trial: dict[str, Any]) -> SimpleNamespace:
    """Return a run of one trial."""
    specs = expand(Plan.model_validate({"name": "p", "trials": [trial]}), "r")
    return SimpleNamespace(run_id="r", specs=specs, started_at=datetime(2026, 1, 1, tzinfo=UTC))


class Gone:
    """The stack answers nothing, each time after so long; `asked` counts."""

    def __init__(self, clock: FakeClock, after_s: float) -> None:
        self.clock = clock
        self.after_s = after_s
        self.asked = 0

    def __getattr__(self, _name: str) -> Any:  # noqa: ANN401 -- any question
        return self

    def __call__(self, *_arguments: object) -> None:
        """Count a question, and answer nothing."""
        self.asked += 1
        self.clock.sleep(self.after_s)
        raise EndpointConnectionError(endpoint_url="http://127.0.0.1:1")


@pytest.mark.timeout(10)
@pytest.mark.parametrize(
    ("endpoint", "after_s", "requests", "within_s"),
    [
        pytest.param("http://127.0.0.1:1", 4, 4, range(20), id="an emulator that died"),
        pytest.param(None, 4, 20, range(LOST_S), id="a network that may come back, as the run on AWS goes on"),
        pytest.param(None, 280, 2, range(LOST_S, 2 * LOST_S), id="a stack that hangs, for minutes a request"),
    ],
)
def test_a_stack_out_of_sight_is_given_up(endpoint: str | None, after_s: float, requests: int, within_s: range) -> None:
    """In the last phase nothing more is asked about phases: what is not asked must not pass for an answer."""
    clock = FakeClock(now_ns=0)
    run = started(small_plan("s3").model_dump(exclude_none=True))
    gone = Gone(clock, after_s)
    stack = SimpleNamespace(endpoint=endpoint, table=gone, runs=gone)
    executions = cast("Executions", SimpleNamespace(run=run, stack=stack, status=gone, children=gone))
    last = len(run.specs[0].plan.phases) - 1
    observer = Observer(executions, clock, trial=0, phase=PhaseStart(last, 0))
    with pytest.raises(LocalEnvironmentError, match="lost sight of run r"):
        watch(observer, lambda _snapshot: None, clock)
    assert gone.asked == requests
    assert clock.now_ns() // 10**9 in within_s


def unending(ahead: int = 0) -> Observer:
    """Watch a run that answers each question, and never ends; others may be before it."""
    stack = SimpleNamespace(endpoint="http://127.0.0.1:1")
    run = started(small_plan("s3").model_dump(exclude_none=True))
    executions = cast("Executions", SimpleNamespace(run=run, stack=stack))
    observer = Observer(executions, FakeClock(now_ns=0), ahead=ahead)
    observer._requests = repeat(lambda: None)
    return observer


def test_a_run_that_never_ends_is_not_watched_for_ever() -> None:
    """MiniStack takes no notice of a machine's time-out, and a thread of its that died leaves the run `RUNNING`."""
    with pytest.raises(LocalEnvironmentError, match=r"not over after 1 h, .*; last seen: validating the plan"):
        watch(observer := unending(), lambda _snapshot: None, observer.clock, limit_s=3_600)
    assert observer.clock.now_ns() // 10**9 in range(3_600, 3_602)


def test_a_run_that_awaits_its_turn_has_all_its_time_from_then_on() -> None:
    """Whoever is before it may take hours."""
    observer = unending(ahead=1)

    def show(_snapshot: object) -> None:
        if observer.clock.now_ns() > 7_200 * 10**9:
            observer.ahead = 0

    with pytest.raises(LocalEnvironmentError, match="not over"):
        watch(observer, show, observer.clock, limit_s=3_600)
    assert observer.clock.now_ns() // 10**9 in range(10_800, 10_803)


class Planned:
    """The bucket has the schedules of some phases; `asked` says for which it was asked."""

    def __init__(self, *phases: int) -> None:
        self.phases = phases
        self.asked: list[int] = []

    def find_json(self, key: str) -> dict[str, int] | None:
        """See `RunStore`."""
        phase = int(key.split("/")[-2])
        self.asked.append(phase)
        return {"start_at_ns": 5} if phase in self.phases else None


def searching(runs: Planned, now_in: int) -> Observer:
    """Watch a trial with four probes (phases 1 to 4) between two other phases."""
    find = {"low_per_s": 10, "high_per_s": 20, "probe_s": 5, "probes": 4}
    load = {"rate_per_s": 10, "of_found": 1, "duration_s": 5}
    phases = [{"name": "before", "load": [{"rate_per_s": 1, "count": 2}]}, {"name": "load", "load": [load]}]
    trial = {"target": {"store": "etcd"}, "phases": phases, "find_rate": find}
    stack = SimpleNamespace(endpoint=None, table=None, runs=runs)
    executions = cast("Executions", SimpleNamespace(run=started(trial), stack=stack))
    return Observer(executions, FakeClock(now_ns=0), trial=0, phase=PhaseStart(now_in, 0))


@pytest.mark.parametrize(
    ("planned", "now_in", "seen", "asked"),
    [
        pytest.param((0, 1, 2, 5), 2, 5, {3, 5}, id="probes 3 and 4 are never planned, the load after them is"),
        pytest.param((0, 1, 2), 1, 2, {2, 5}, id="the next probe"),
    ],
)
def test_the_phase_after_this_one_is_seen_though_a_search_ends_early(
    planned: tuple[int, ...], now_in: int, seen: int, asked: set[int]
) -> None:
    """Two requests are enough: one for the next probe, one for what comes after all of them."""
    observer = searching(runs := Planned(*planned), now_in)
    for _ in range(2):
        observer._read_phase()
    assert observer.phase == PhaseStart(seen, 5)
    assert set(runs.asked) <= asked


def test_canaries_are_no_events_however_late_the_first_heartbeat_comes() -> None:
    """By the heartbeat, which comes up to a second after the load's first events, those were taken for canaries."""
    table = MemoryServices(FakeClock(now_ns=0)).services.table
    run = started(small_plan("s3").model_dump(exclude_none=True))
    stack = SimpleNamespace(endpoint=None, table=table, runs=Planned(0))
    observer = Observer(cast("Executions", SimpleNamespace(run=run, stack=stack)), FakeClock(now_ns=9), trial=0)
    table.put_t4(run.specs[0].tag, "canary", 4, {"n": 3})
    table.put_t4(run.specs[0].tag, "event", 6, {"n": 2})
    for _ in range(2):
        observer._read_phase()
        for shard in range(layout.T4_SHARDS):
            observer._read_shard(shard)
    assert observer.snapshot().received == 2


@pytest.mark.parametrize(("now_ns", "seen"), [(4, PhaseStart(0, 0)), (5, PhaseStart(1, 5))])
def test_a_phase_that_was_planned_with_the_one_before_is_seen_when_it_begins(now_ns: int, seen: PhaseStart) -> None:
    """Its schedule is there minutes earlier, while the other phase's load is still offered."""
    load = [{"rate_per_s": 1, "count": 2}]
    phases = [{"name": "warm-up", "load": load}, {"name": "step", "gapless": True, "load": load}]
    stack = SimpleNamespace(endpoint=None, table=None, runs=Planned(0, 1))
    run = started({"target": {"store": "s3"}, "phases": phases})
    executions = cast("Executions", SimpleNamespace(run=run, stack=stack))
    observer = Observer(executions, FakeClock(now_ns=now_ns), trial=0, phase=PhaseStart(0, 0))
    observer._read_phase()
    assert observer.phase == seen


def test_who_holds_the_target_is_read_until_the_first_phase_is_planned() -> None:
    """PrepareTarget notes it in the results table, which a run on AWS has as well."""
    memory = MemoryServices()
    run = started({"target": {"store": "s3"}, "phases": [{"name": "p", "load": [{"rate_per_s": 1, "count": 2}]}]})
    stack = SimpleNamespace(endpoint=None, table=memory.services.table, runs=None)
    executions = cast("Executions", SimpleNamespace(run=run, stack=stack))
    observer = Observer(executions, FakeClock(now_ns=0), trial=0)
    memory.services.table.set_flag(run.specs[0].tag, layout.WAITING, "trial 2 of run other")
    observer._read_beats()
    assert observer.snapshot().holder == "trial 2 of run other"
    memory.services.table.set_flag(run.specs[0].tag, layout.WAITING, "")
    observer._read_beats()
    assert observer.snapshot().holder == ""


class Ending:
    """The end of a run of one trial, whose results are in a bucket that answers with `raised`, if that is given."""

    def __init__(self, out: Path, raised: BaseException | None = None, servers: tuple[EndedServer, ...] = ()) -> None:
        self.said: list[str] = []
        self.memory = MemoryServices(FakeClock(now_ns=0))
        trial = small_plan("s3").model_dump(mode="json", exclude_none=True)
        self.document = {"name": "p", "trials": [trial]}
        run = cast("RunSpec", started(trial))
        runs = self.memory.services.runs if raised is None else cast("Any", Raising(raised))
        self.folder = RunFolder(runs, run, out, self.said.append)
        stack = SimpleNamespace(runs=runs, endpoint="http://127.0.0.1:1")
        executions = cast("Executions", SimpleNamespace(run=run, stack=stack))
        watched = cast("ServerWatch", SimpleNamespace(poll=lambda _ahead: servers))
        self.observer = Observer(executions, FakeClock(now_ns=0), folder=self.folder, servers=watched)

    def collect(self, error: Exception | None = None, *, stopped: bool = False) -> RunOutcome:
        """Return what `_collect` makes of a run with this outcome so far."""
        outcome = RunOutcome("r", self.folder.path, None, stopped, error=error)
        return _collect(self.observer, self.folder, self.document, outcome)


class Raising:
    """A bucket that answers everything with one exception."""

    bucket = "results"

    def __init__(self, raised: BaseException) -> None:
        self._raised = raised

    def __getattr__(self, _name: str) -> Callable[..., None]:
        """Answer."""

        def answer(*_: object) -> None:
            raise self._raised

        return answer


def ended(name: str) -> EndedServer:
    """Return a server that was killed under trial 0."""
    return EndedServer(server=name, version="1", pids=(7,), how="is gone", seen_at="2026-01-01", log=(), trials=(0,))


ABANDONED = RunAbandonedError("run r was interrupted while it was being stopped")


def test_results_that_could_not_be_fetched_leave_no_summary_here(tmp_path: Path) -> None:
    """With one, `stepbench report`, which the error names, would take the folder for whole and fetch nothing."""
    ending = Ending(tmp_path, RecordsUnavailableError("busy"))
    outcome = ending.collect()
    assert isinstance(outcome.error, NotFetchedError)
    with pytest.raises(PlanError, match="neither a run's folder nor a run"):
        find_run("r", tmp_path, print)


def test_an_interrupt_while_results_are_fetched_loses_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run is over, and its results would go with the environment."""
    ending = Ending(tmp_path)
    ending.memory.bucket.objects[layout.run_key("r", "plan.json")] = b"{}"
    interrupts = [KeyboardInterrupt()]
    read = ending.memory.bucket.get_object

    def get_object(**arguments: Any) -> Any:  # noqa: ANN401 -- as boto3
        if interrupts:
            raise interrupts.pop()
        return read(**arguments)

    monkeypatch.setattr(ending.memory.bucket, "get_object", get_object)
    outcome = ending.collect()
    assert (outcome.stopped, outcome.error) == (True, None)
    assert (outcome.folder / "plan.json").read_bytes() == b"{}"
    assert "interrupt again to leave them" in ending.said[0]


@pytest.mark.parametrize(
    ("status", "said"),
    [("succeeded", ["run r was over when it was interrupted; its results are whole"]), ("stopped", [])],
)
def test_an_interrupt_that_comes_too_late_to_stop_anything_is_said(
    status: str, said: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The exit code is that of a stopped run, the report that of a whole one: nothing told which was right."""
    monkeypatch.setattr(running, "read_summary", lambda _: SimpleNamespace(status=status))
    ending = Ending(tmp_path)
    ending.collect(stopped=True)
    assert ending.said == said


def test_a_second_interrupt_ends_the_environment_while_results_are_fetched_too(tmp_path: Path) -> None:
    """As it does in every other moment of a stop; what is here already is rendered."""
    outcome = Ending(tmp_path, KeyboardInterrupt()).collect(stopped=True)
    assert isinstance(outcome.error, RunAbandonedError)
    assert outcome.summary is not None


@pytest.mark.parametrize("raised", [KeyboardInterrupt(), ValueError("no such chart"), OSError("full")])
def test_nothing_in_rendering_hides_that_a_run_still_moves(
    raised: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An environment that `up` has started would stay up, with writers in it."""

    def render(*_: object, **__: object) -> None:
        raise raised

    monkeypatch.setattr(RunFolder, "render", render)
    outcome = Ending(tmp_path).collect(ABANDONED, stopped=True)
    assert (outcome.error, outcome.summary) == (ABANDONED, None)
    assert outcome.cause == (str(raised) or "KeyboardInterrupt")


def test_a_store_that_died_with_the_emulator_is_told_too(tmp_path: Path) -> None:
    """Both are seen in one look, and there is no bucket any more to store the one for; the emulator's end counts."""
    both = (ended("emulator"), ended("etcd"))
    ending = Ending(tmp_path, RecordsUnavailableError("refused"), both)
    outcome = ending.collect()
    assert isinstance(outcome.error, RunAbandonedError)
    assert [server.server for server in ending.folder.ended] == ["emulator", "etcd"]
    assert outcome.summary is not None


def test_a_store_that_is_seen_dead_at_the_end_hides_no_error(tmp_path: Path) -> None:
    """The bucket may not answer by then; that would come in place of the error that ends the environment."""
    outcome = Ending(tmp_path, RecordsUnavailableError("refused"), (ended("etcd"),)).collect(ABANDONED)
    assert outcome.error is ABANDONED


def test_what_could_not_be_torn_down_is_said_though_nothing_could_be_fetched(tmp_path: Path) -> None:
    """One error alone is raised, by which the environment is kept."""
    left = NotTornDownError("r", ("etcd#x",))
    ending = Ending(tmp_path, RecordsUnavailableError("refused"))
    outcome = ending.collect(left, stopped=True)
    assert isinstance(outcome.error, NotFetchedError)
    assert ending.said == [str(left)]


def test_what_a_trial_does_not_say_its_execution_does(tmp_path: Path) -> None:
    """To point to an execution helps nobody once the emulator is gone."""
    memory = MemoryServices(FakeClock(now_ns=0))
    run = started(small_plan("s3").model_dump(exclude_none=True))
    [spec] = run.specs
    runs = memory.services.runs
    runs.put_model(layout.trial_key(spec.ref, "trial.json"), spec)

    def render(_function: str, task: dict[str, Any]) -> None:
        render_report(RenderReportInput.model_validate(task), memory.services)

    outcome = {"trial": 0, "error": "States.TaskFailed"}
    render("", {"run_id": "r", "started_at": run.started_at, "outcomes": [outcome]})
    described: dict[str, object] = {"status": "FAILED", "error": "Lambda.Unknown", "cause": "signal: killed"}
    asked: list[str] = []

    def describe(executionArn: str) -> dict[str, object]:  # noqa: N803 -- boto3's
        asked.append(executionArn)
        return described

    stack = SimpleNamespace(
        runs=runs,
        call=render,
        endpoint=None,
        outputs={"TrialStateMachineArn": "arn:stateMachine:t", "BenchmarkStateMachineArn": "arn:stateMachine:b"},
        aws=lambda _service: SimpleNamespace(describe_execution=describe),
    )
    executions = Executions(cast("Stack", stack), cast("RunSpec", run))
    folder = RunFolder(runs, cast("RunSpec", run), tmp_path, lambda _text: None)
    observer = Observer(executions, FakeClock(now_ns=0), folder=folder)
    collected = _collect(observer, folder, {}, RunOutcome("r", folder.path, None))
    assert asked == [f"arn:execution:t:{spec.tag}-{spec.name}"]
    assert collected.summary is not None
    assert collected.summary.trials[0].failure == Failure(error="Lambda.Unknown", cause="signal: killed")
