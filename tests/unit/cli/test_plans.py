"""The commands about plans, and where a plan comes from."""

from __future__ import annotations

import json

import pytest
from tests.unit.cli.conftest import PHASES, PLAN, TRIAL, Recorder, from_stdin, written

from stepbench.cli import main
from stepbench.local import commands
from stepbench.local.commands import Ending


def test_a_plan_over_its_budget_is_bad_input(capsys: pytest.CaptureFixture[str]) -> None:
    """The estimate stands beside the budget, and so does the remedy."""
    phases = [{"name": "p", "load": [{"rate_per_s": 1_000, "duration_s": 10_000}]}]
    assert main(["validate", written({**TRIAL, "phases": phases}, budget_usd=0.01)]) == 2
    assert "budget_usd" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "said"),
    [
        pytest.param("plan.json", "one: 1 trial, 200 events in 10 s of load; estimate $", id="200 events at 20/s"),
        pytest.param("quick-sql", "quick-sql: 4 trials, up to ", id="a closed loop's number is for the store to say"),
    ],
)
def test_validate_says_what_the_plan_would_do(capsys: pytest.CaptureFixture[str], name: str, said: str) -> None:
    """A user sees what it would cost, in time and money, before it is run."""
    written()
    assert main(["validate", name]) == 0
    assert capsys.readouterr().out.startswith(said)


@pytest.mark.parametrize(
    ("target", "options", "code"),
    [
        ({"store": "cassandra"}, [], 2),
        ({"store": "cassandra"}, ["--stack"], 0),
        ({"store": "cassandra", "endpoint": "127.0.0.1:9042"}, [], 0),
        ({"store": "redis"}, [], 0),
        ({"store": "dynamodb"}, [], 0),
    ],
)
def test_validate_refuses_a_store_that_this_machine_does_not_start(
    capsys: pytest.CaptureFixture[str], target: dict[str, str], options: list[str], code: int
) -> None:
    """A run would find out when everything else is up; a deployed stack may have one."""
    trial = {"experiment": "operations", "workload": {"mix": {"read": 1}}, "phases": PHASES, "target": target}
    assert main(["validate", written(trial), *options]) == code
    missing = "trials[0].target.endpoint: is missing, and this machine has no server of cassandra (got nothing)"
    error = capsys.readouterr().err
    assert (missing in error) == (code == 2)
    assert ("Give the endpoint of a server of your own" in error) == (code == 2)


def test_a_plan_comes_from_stdin_under_the_name_of_a_dash(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A user may say `jq '.trials[0].repeats = 5' plan.json | stepbench validate -`."""
    from_stdin(json.dumps(PLAN), monkeypatch)
    assert main(["validate", "-"]) == 0
    assert capsys.readouterr().out.startswith("one: 1 trial, 200 events in 10 s of load")
    from_stdin(json.dumps(PLAN), monkeypatch)
    monkeypatch.setattr(commands, "run_here", recorder := Recorder(answer=Ending.WHOLE))
    assert main(["run", "-"]) == 0
    assert [plan.name for plan in recorder.asked[0][1]] == ["one"]


@pytest.mark.parametrize(
    ("text", "arguments", "said"),
    [
        pytest.param("", ["validate", "-"], "stepbench: plan: is empty", id="a pipe whose other end failed"),
        pytest.param(
            "x" * 1_000_000,
            ["validate", "-"],
            "stepbench: plan: is larger than 262,144 bytes (got 262,145 bytes)",
            id="too long: no more is read than shows that",
        ),
        pytest.param(json.dumps(PLAN), ["run", "-", "-"], "stepbench: PLAN: stdin can be read once only", id="twice"),
    ],
)
def test_what_is_wrong_on_stdin_is_bad_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], text: str, arguments: list[str], said: str
) -> None:
    """It is told as of a file; a second reading would find nothing, and say that the plan is empty."""
    from_stdin(text, monkeypatch)
    assert main(arguments) == 2
    assert capsys.readouterr().err.startswith(said)


def test_validate_knows_nothing_against_traces_and_asks_nobody(capsys: pytest.CaptureFixture[str]) -> None:
    """The stack has to find out if X-Ray shows them."""
    application = {"name": "app", "source": "ours", "traces": {"name": "chain"}}
    assert main(["validate", written(applications=[application])]) == 0
    assert capsys.readouterr().err == ""


def test_validate_shows_what_a_plan_expands_into(capsys: pytest.CaptureFixture[str]) -> None:
    """Trials stand in the order in which they would run; events and length are those of all of them."""
    trial, other = {**TRIAL, "matrix": {"writers": [1, 2]}, "repeats": 2}, {**TRIAL, "target": {"store": "etcd"}}
    assert main(["validate", written(trial, other)]) == 0
    first, *rest = capsys.readouterr().out.splitlines()
    assert first.startswith("one: 5 trials, 1,000 events in 50 s of load; estimate $")
    assert rest == [
        "   1  s3.writers-1.r1  writers=1",
        "   2  s3.writers-2.r1  writers=2",
        "   3  etcd",
        "   4  s3.writers-1.r2  writers=1",
        "   5  s3.writers-2.r2  writers=2",
    ]


def test_plans_lists_presets_that_are_valid(capsys: pytest.CaptureFixture[str]) -> None:
    """A preset that does not parse would end this with 2."""
    assert main(["plans"]) == 0
    names = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert "quick-unloaded" in names
    assert names == sorted(names)


def test_schema_is_json_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    """An editor takes it so."""
    assert main(["schema"]) == 0
    assert json.loads(capsys.readouterr().out)["title"] == "Stepbench plan"
