"""What of a plan is run on a machine that cannot run all of it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from stepbench.contracts.plan import Plan
from stepbench.local.commands import left_out, without
from stepbench.local.executions import new_run_id
from stepbench.local.session import parameters
from stepbench.local.state import EnvironmentState, Server

PHASES = [{"name": "p", "load": [{"rate_per_s": 20, "count": 200}]}]
SKIPPED = {"etcd": "no wheel"}


def plan(*targets: dict[str, str]) -> Plan:
    """A plan with one trial for each target."""
    return Plan.model_validate({"name": "p", "trials": [{"target": target, "phases": PHASES} for target in targets]})


def test_a_plan_that_can_run_whole_is_left_as_it_is() -> None:
    """The report then shows the plan as its user wrote it."""
    whole = plan({"store": "s3"}, {"store": "dynamodb"})
    assert without(whole, SKIPPED, "r") is whole
    assert left_out(whole, SKIPPED, "r") == []


def test_a_skipped_stores_trials_are_left_out_and_the_others_keep_their_names() -> None:
    """`s3-2` must not become `s3` because something else could not run."""
    whole = plan({"store": "etcd"}, {"store": "s3"}, {"store": "s3"}, {"store": "etcd"})
    kept = without(whole, SKIPPED, "r")
    assert kept is not None
    assert [trial.name for trial in kept.trials] == ["s3", "s3-2"]
    assert left_out(whole, SKIPPED, "r") == [("etcd", "etcd"), ("etcd-2", "etcd")]


def test_a_trial_with_an_endpoint_of_its_own_does_not_need_the_local_store() -> None:
    """The user's own server is running, whatever this machine can start."""
    whole = plan({"store": "etcd", "endpoint": "127.0.0.1:2379"})
    assert without(whole, SKIPPED, "r") is whole


def test_nothing_is_left_of_a_plan_for_skipped_stores_only() -> None:
    """Then no run is started at all."""
    assert without(plan({"store": "etcd"}), SKIPPED, "r") is None


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
    )
    found = parameters(EnvironmentState(servers=servers), "python3.12")
    assert found == {
        "PythonRuntime": "python3.12",
        "LeadSeconds": "4",
        "ClockReference": "127.0.0.1:123",
        "Emulator": "MiniStack 1.5.33",
        "PostgresqlEndpoint": "",
        "EtcdEndpoint": "127.0.0.1:2379",
        "AllowCustomEndpoints": "true",
    }
