"""What of a plan is run on a machine that cannot run all of it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from functools import partial
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest
from rich.console import Console
from tests.samples.services import MemoryServices
from tests.support.fake_clock import FakeClock

from stepbench.compiled import processor
from stepbench.contracts.findings import SlowSpells
from stepbench.contracts.plan import Plan
from stepbench.errors import PlanError
from stepbench.experiments.estimates import estimate
from stepbench.load.machine_speed import check_cores
from stepbench.planning import expanded, parse_plan
from stepbench.planning.wall_time import AWS, LOCAL
from stepbench.records.storage import layout
from stepbench_tools.local import commands
from stepbench_tools.local.commands import Ending, Options, Runner, run_here
from stepbench_tools.local.executions import new_run_id
from stepbench_tools.local.paths import Paths
from stepbench_tools.local.processes import ProcessId
from stepbench_tools.local.running import RunOutcome
from stepbench_tools.local.session import LocalSession, parameters
from stepbench_tools.local.state import EnvironmentState, Server
from stepbench_tools.local.store_list import runnable_part, skipped_trials
from stepbench_tools.local.streams import message_console

if TYPE_CHECKING:
    from stepbench_tools.local.executions import Executions
    from stepbench_tools.local.stack import Stack

PHASES = [{"name": "p", "load": [{"rate_per_s": 20, "count": 200}]}]
SKIPPED = {"etcd": "no wheel"}


def plan(*targets: dict[str, str]) -> Plan:
    """Return a plan with one trial for each target."""
    return Plan.model_validate({"name": "p", "trials": [{"target": target, "phases": PHASES} for target in targets]})


@pytest.mark.parametrize(
    "targets",
    [
        pytest.param([{"store": "s3"}, {"store": "dynamodb"}], id="stores that run here"),
        pytest.param([{"store": "etcd", "endpoint": "127.0.0.1:2379"}], id="the user's own server"),
    ],
)
def test_a_plan_that_can_run_whole_is_left_as_it_is(targets: list[dict[str, str]]) -> None:
    """The report then shows the plan as its user wrote it."""
    whole = plan(*targets)
    assert runnable_part(whole, SKIPPED) is whole
    assert skipped_trials(whole, SKIPPED) == []


def test_a_skipped_stores_trials_are_left_out_and_the_others_keep_their_names() -> None:
    """`s3-2` must not become `s3` because something else could not run."""
    whole = plan({"store": "etcd"}, {"store": "s3"}, {"store": "s3"}, {"store": "etcd"})
    kept = runnable_part(whole, SKIPPED)
    assert kept is not None
    assert [trial.name for trial in kept.trials] == ["s3", "s3-2"]
    assert [(one.name, one.store) for one in skipped_trials(whole, SKIPPED)] == [("etcd", "etcd"), ("etcd-2", "etcd")]


def test_thresholds_about_a_skipped_store_are_left_out_with_it() -> None:
    """The stack would refuse the rest of the plan for naming a window that it does not have."""
    whole = plan({"store": "etcd"}, {"store": "s3"})
    own = whole.trials[0].model_copy(update={"phases": (whole.trials[0].phases[0].model_copy(update={"name": "own"}),)})
    both = whole.model_copy(
        update={"trials": (own, whole.trials[1]), "thresholds": ("errors < 1 %", "p99 in own < 1 s", "max < 1 s")}
    )
    kept = runnable_part(both, SKIPPED)
    assert kept is not None
    assert kept.thresholds == ("errors < 1 %", "max < 1 s")
    assert parse_plan(kept.model_dump(mode="json", exclude_none=True)) == kept


def test_nothing_is_left_of_a_plan_for_skipped_stores_only() -> None:
    """Then no run is started at all."""
    assert runnable_part(plan({"store": "etcd"}), SKIPPED) is None


def expanding(store: str, **fields: object) -> dict[str, object]:
    """Return a trial that expands."""
    return {"target": {"store": store}, "phases": PHASES, **fields}


def names(plan: Plan | None) -> list[str]:
    """Return the names of all trials that the plan expands into."""
    return [trial.name for trial in expanded(plan)] if plan else []


def test_what_expands_is_left_out_or_kept_whole_under_the_same_names() -> None:
    """The report's groups must be those of the whole plan."""
    trials = [
        expanding("etcd", matrix={"writers": [1, 2]}),
        expanding("s3", repeats=2),
        expanding("s3", matrix={"writers": [1, 2]}, repeats=2),
    ]
    whole = Plan.model_validate({"name": "p", "trials": trials})
    kept = runnable_part(whole, SKIPPED)
    assert [one.name for one in skipped_trials(whole, SKIPPED)] == ["etcd.writers-1", "etcd.writers-2"]
    assert names(kept) == [name for name in names(whole) if not name.startswith("etcd")]
    assert kept is not None
    assert [trial.copies for trial in kept.trials] == [2, 4]


def test_dynamodb_with_tls_is_left_to_aws() -> None:
    """The emulator's would fail after the trials before it; without TLS it is what the plan asks for."""
    trials = [
        {**expanding("dynamodb"), "name": f"tls-{tls}".lower(), "target": {"store": "dynamodb", "tls": tls}}
        for tls in (True, False, None)
    ]
    whole = Plan.model_validate({"name": "p", "trials": trials})
    (skipped,) = {(one.name.partition(".")[0], one.reason) for one in skipped_trials(whole, {})}
    assert skipped[0] == "tls-true"
    assert "speaks plain HTTP" in skipped[1]


def test_of_a_matrix_over_stores_those_that_run_here_are_kept() -> None:
    """They keep their repeats."""
    trial = expanding("etcd", matrix={"target.store": ["s3", "etcd", "dynamodb"]}, repeats=2)
    whole = Plan.model_validate({"name": "p", "trials": [trial]})
    kept = runnable_part(whole, SKIPPED)
    assert [(one.name, one.reason) for one in skipped_trials(whole, SKIPPED)] == [
        ("etcd.r1", "no wheel"),
        ("etcd.r2", "no wheel"),
    ]
    assert names(kept) == ["s3.r1", "dynamodb.r1", "s3.r2", "dynamodb.r2"]
    assert kept is not None
    assert [trial.plan.seed for trial in expanded(kept)] == [7, 7, 8, 8]
    assert parse_plan(kept.model_dump_json()) == kept
    assert names(runnable_part(whole, {"x": "no such store"})) == names(whole)


@pytest.mark.parametrize("name", ["quick", "a.b_c-d", "x" * 60])
def test_a_run_id_is_a_valid_execution_name(name: str) -> None:
    """Step Functions takes 80 characters, and the run's id is its execution's name."""
    run_id = new_run_id(name, datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))
    assert len(run_id) <= 80
    assert run_id.replace("-", "").replace("_", "").isalnum()
    assert "-20260102T030405-" in run_id


def test_two_runs_of_one_second_have_different_ids() -> None:
    """Two people may start the same plan at once."""
    now = datetime(2026, 1, 2, tzinfo=UTC)
    assert len({new_run_id("p", now) for _ in range(8)}) > 1


def test_the_templates_parameters_are_what_runs() -> None:
    """A store that is skipped has no endpoint, and its driver then says so."""
    servers = (
        Server(name="clock-reference", version="", endpoint="127.0.0.1:123", processes=()),
        Server(name="etcd", version="", endpoint="127.0.0.1:2379", processes=(ProcessId(1, 0),)),
        Server(name="reference", version="", endpoint="127.0.0.1:7300", processes=()),
    )
    found = parameters(EnvironmentState(servers=servers), "python3.12")
    assert json.loads(found.pop("EtcdMetric"))["dimensions"] == [{"Server": "etcd"}]
    assert found == {
        "PythonRuntime": "python3.12",
        "Architecture": processor(),
        "LeadSeconds": "3",
        "ClockCheck": "on",
        "LoadHost": "own",
        "Fargate": "on",
        "FilesFolder": "",
        "RunsAtOnce": "one",
        "ClockReference": "127.0.0.1:123",
        "Emulator": "MiniStack 1.5.33",
        "PostgresqlEndpoint": "",
        "PostgresqlTlsEndpoint": "",
        "EtcdEndpoint": "127.0.0.1:2379",
        "RedisEndpoint": "",
        "RedisTlsEndpoint": "",
        "TlsAuthority": "",
        "ReferenceEndpoint": "127.0.0.1:7300",
        "CassandraEndpoint": "",
        "CassandraControl": "",
        "AllowCustomEndpoints": "true",
    }


def test_what_wants_x_ray_is_refused_before_anything_is_started(tmp_path: Path) -> None:
    """No emulator of ours plays it, and a minute of starting one would end in the same words."""
    application = {"name": "app", "source": "ours", "traces": {"name": "chain"}}
    traced = plan({"store": "s3"}).model_copy(update={"name": "traced"})
    document = {**traced.model_dump(mode="json", exclude_none=True), "applications": [application]}
    paths = Paths(tmp_path, tmp_path / "run")  # not a checkout: nothing could be built here
    with pytest.raises(
        PlanError, match=r"applications\[0\].traces: needs X-Ray, which the local emulator does not have"
    ):
        run_here(paths, [parse_plan(document)], Options(tmp_path), Console(), Console())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("quiet", [True, False])
def test_what_cannot_run_is_told_however_quiet_a_run_is_to_be(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    quiet: bool,  # noqa: FBT001
) -> None:
    """Exit code 1 alone does not say why."""
    stack = cast("Stack", None)  # nothing of the plan gets there
    session = LocalSession(stack, EnvironmentState(skipped=SKIPPED))
    console = message_console(quiet=quiet)
    runner = Runner(stack, Options(out=tmp_path, quiet=quiet), LOCAL, console, console, session)
    assert runner.run_all([plan({"store": "etcd"})]) == Ending.NOT_WHOLE
    assert capsys.readouterr().err == "etcd is skipped: no wheel\nnothing of p can run here\n"


def test_a_run_is_estimated_by_where_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A report that is rendered here, as of a run that was stopped twice, had AWS's estimate for a local run."""
    began: list[Executions] = []

    def execute(executions: Executions, *_: object, **_options: object) -> RunOutcome:
        began.append(executions)
        return RunOutcome("r", tmp_path, None)

    monkeypatch.setattr(commands, "execute", execute)
    own, console = plan({"store": "s3"}), Console(file=StringIO())
    for overheads in (AWS, LOCAL):
        Runner(cast("Stack", None), Options(out=tmp_path), overheads, console, console).run_one(own)
        (spec,) = began.pop().run.specs
        assert spec.estimate_usd == estimate(spec.plan, overheads.assumed).total_usd
    assert estimate(spec.plan, AWS.assumed).total_usd != spec.estimate_usd


def test_the_machines_speed_is_looked_at_before_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each trial's analysis finds it beside the run, even where none of them has a floor; --no-floors leaves it out."""
    monkeypatch.setattr(commands, "check_cores", partial(check_cores, seconds=0.02))
    own = plan({"store": "etcd", "endpoint": "127.0.0.1:2379"})
    runs = MemoryServices(FakeClock(1)).services.runs
    session = cast("LocalSession", SimpleNamespace(etcd=None))
    for number, floors in enumerate((True, False)):
        stack, console = cast("Stack", SimpleNamespace(runs=runs)), Console(file=StringIO())
        asked = Runner(stack, Options(out=tmp_path, floors=floors), LOCAL, console, console, session)
        asked._prepare(own, own, f"run-{number}", {})
        assert (runs.find_model(layout.machine_key(f"run-{number}"), SlowSpells) is not None) == floors
