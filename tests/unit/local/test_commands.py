"""What of a plan is run on a machine that cannot run all of it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from rich.console import Console

from stepbench.contracts.plan import Plan, TrialPlan
from stepbench.errors import PlanError
from stepbench.local.commands import Options, left_out, run_here, without
from stepbench.local.executions import new_run_id
from stepbench.local.places import Places
from stepbench.local.session import NO_CLUSTER, parameters, why_skipped
from stepbench.local.state import EnvironmentState, Server
from stepbench.planning import expanded, parse_plan

PHASES = [{"name": "p", "load": [{"rate_per_s": 20, "count": 200}]}]
SKIPPED = {"etcd": "no wheel"}


def plan(*targets: dict[str, str]) -> Plan:
    """A plan with one trial for each target."""
    return Plan.model_validate({"name": "p", "trials": [{"target": target, "phases": PHASES} for target in targets]})


def test_a_plan_that_can_run_whole_is_left_as_it_is() -> None:
    """The report then shows the plan as its user wrote it."""
    whole = plan({"store": "s3"}, {"store": "dynamodb"})
    assert without(whole, SKIPPED) is whole
    assert left_out(whole, SKIPPED) == []


def test_a_skipped_stores_trials_are_left_out_and_the_others_keep_their_names() -> None:
    """`s3-2` must not become `s3` because something else could not run."""
    whole = plan({"store": "etcd"}, {"store": "s3"}, {"store": "s3"}, {"store": "etcd"})
    kept = without(whole, SKIPPED)
    assert kept is not None
    assert [trial.name for trial in kept.trials] == ["s3", "s3-2"]
    assert [(one.name, one.store) for one in left_out(whole, SKIPPED)] == [("etcd", "etcd"), ("etcd-2", "etcd")]


def test_a_trial_with_an_endpoint_of_its_own_does_not_need_the_local_store() -> None:
    """The user's own server is running, whatever this machine can start."""
    whole = plan({"store": "etcd", "endpoint": "127.0.0.1:2379"})
    assert without(whole, SKIPPED) is whole


def test_nothing_is_left_of_a_plan_for_skipped_stores_only() -> None:
    """Then no run is started at all."""
    assert without(plan({"store": "etcd"}), SKIPPED) is None


def expanding(store: str, **fields: object) -> dict[str, object]:
    """A trial that expands."""
    return {"target": {"store": store}, "phases": PHASES, **fields}


def names(plan: Plan | None) -> list[str]:
    """Of all trials that the plan expands into."""
    return [trial.name for trial in expanded(plan)] if plan else []


def test_what_expands_is_left_out_or_kept_whole_under_the_same_names() -> None:
    """The report's groups must be those of the whole plan."""
    trials = [
        expanding("etcd", matrix={"writers": [1, 2]}),
        expanding("s3", repeats=2),
        expanding("s3", matrix={"writers": [1, 2]}, repeats=2),
    ]
    whole = Plan.model_validate({"name": "p", "trials": trials})
    kept = without(whole, SKIPPED)
    assert [one.name for one in left_out(whole, SKIPPED)] == ["etcd.writers-1", "etcd.writers-2"]
    assert names(kept) == [name for name in names(whole) if not name.startswith("etcd")]
    assert kept is not None
    assert [trial.copies for trial in kept.trials] == [2, 4]


def test_of_a_matrix_over_stores_those_that_run_here_are_kept() -> None:
    """With their repeats."""
    trial = expanding("etcd", matrix={"target.store": ["s3", "etcd", "dynamodb"]}, repeats=2)
    whole = Plan.model_validate({"name": "p", "trials": [trial]})
    kept = without(whole, SKIPPED)
    assert [(one.name, one.reason) for one in left_out(whole, SKIPPED)] == [
        ("etcd.r1", "no wheel"),
        ("etcd.r2", "no wheel"),
    ]
    assert names(kept) == ["s3.r1", "dynamodb.r1", "s3.r2", "dynamodb.r2"]
    assert kept is not None
    assert [trial.plan.seed for trial in expanded(kept)] == [7, 7, 8, 8]
    assert parse_plan(kept.model_dump_json()) == kept
    assert names(without(whole, {"x": "no such store"})) == names(whole)


def test_redis_with_tls_is_left_out_where_only_the_plain_one_runs() -> None:
    """The wheel's server has no TLS; a cluster runs nowhere here, and a server of one's own is not ours to start."""
    targets: list[dict[str, object]] = [
        {},
        {"tls": True},
        {"cluster": True},
        {"tls": True, "endpoint": "10.0.0.1:6379"},
    ]
    plans = [
        TrialPlan.model_validate(
            {
                "experiment": "operations",
                "target": {"store": "redis", **target},
                "workload": {},
                "phases": [{"name": "load", "closed": {"clients": 1, "duration_s": 1}}],
            }
        )
        for target in targets
    ]
    skipped = {"redis_tls": "no redis-server is on the PATH"}
    assert [why_skipped(each, skipped) for each in plans] == [None, skipped["redis_tls"], NO_CLUSTER, None]


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
        Server(name="etcd", version="", endpoint="127.0.0.1:2379", processes=()),
        Server(name="reference", version="", endpoint="127.0.0.1:7300", processes=()),
    )
    found = parameters(EnvironmentState(servers=servers), "python3.12")
    assert json.loads(found.pop("EtcdMetric"))["dimensions"] == [{"Server": "etcd"}]
    assert found == {
        "PythonRuntime": "python3.12",
        "LeadSeconds": "3",
        "ClockCheck": "on",
        "ClockReference": "127.0.0.1:123",
        "Emulator": "MiniStack 1.5.33",
        "PostgresqlEndpoint": "",
        "PostgresqlTlsEndpoint": "",
        "EtcdEndpoint": "127.0.0.1:2379",
        "RedisEndpoint": "",
        "RedisTlsEndpoint": "",
        "TlsAuthority": "",
        "ReferenceEndpoint": "127.0.0.1:7300",
        "AllowCustomEndpoints": "true",
    }


def test_what_wants_x_ray_is_refused_before_anything_is_started(tmp_path: Path) -> None:
    """No emulator of ours plays it, and a minute of starting one would end in the same words."""
    application = {"name": "app", "source": "ours", "traces": {"name": "chain"}}
    traced = plan({"store": "s3"}).model_copy(update={"name": "traced"})
    document = {**traced.model_dump(mode="json", exclude_none=True), "applications": [application]}
    places = Places(tmp_path, tmp_path / "run")  # not a checkout: nothing could be built here
    with pytest.raises(
        PlanError, match=r"applications\[0\].traces: needs X-Ray, which the local emulator does not have"
    ):
        run_here(places, [parse_plan(document)], Options(tmp_path), Console(), Console())
    assert list(tmp_path.iterdir()) == []
