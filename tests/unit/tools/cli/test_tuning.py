"""The command `tune`: for which workloads it searches, and what it says of what it found."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.samples.dags import DIAMOND, dataflow_trial
from tests.samples.refusals import plan_of
from tests.samples.tuning import BROADCAST, CACHED, confirmation, model

from stepbench.planning import parse_plan
from stepbench_tools.cli import main
from stepbench_tools.cli.tuning import cassandra_trials, summary, workloads_of


def test_it_searches_for_each_of_a_plan_s_workloads_once() -> None:
    """Two trials of one DAG ask for the same, and what goes through another store is none of Cassandra's business."""
    cassandra = dataflow_trial(target={"store": "cassandra"})
    plan = {"name": "plan", "trials": [{**cassandra, "name": "a"}, {**cassandra, "name": "b"}, dataflow_trial()]}
    (workload,) = workloads_of(cassandra_trials(parse_plan(plan)))
    assert workload.clients == 6  # of DIAMOND's second level
    assert workload.read_share == pytest.approx(12 / 23)


def test_a_plan_without_cassandra_is_refused_before_anything_is_started(capsys: pytest.CaptureFixture[str]) -> None:
    """The search would take hours."""
    Path("plan.json").write_text(json.dumps(plan_of(dataflow_trial(DIAMOND))))
    assert main(["tune", "plan.json"]) == 2
    assert "no DAG that passes data through Cassandra" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (["--name", "i3.large"], "'i3.large' is not a name"),
        (["--starts", "60"], "60 is not between 1 and 50"),
        (["--evaluations", "2"], "2 is not between 3 and 30"),
        (["--into", "nowhere/tuned.json"], "is not a file that can be written"),
        (["--into", "."], "is not a file that can be written"),
    ],
)
def test_what_would_spoil_the_model_is_refused_before_the_search(
    option: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """After hours it would be too late."""
    with pytest.raises(SystemExit):
        main(["tune", "quick-dataflow-adaptive", *option])
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("low", "interval", "verdict"),
    [
        (1.05, "(+5.0% to +15.0%) on 20 fresh starts", ": a candidate"),
        (None, "(no interval: fewer than six starts) on 5 fresh starts", ": not a candidate"),
    ],
)
def test_it_says_how_sure_a_gain_is(low: float | None, interval: str, verdict: str) -> None:
    """By hand: a gain of 0.1 is half of the 0.2 that the search saw."""
    outage, told = summary(model(confirmations=(confirmation(CACHED, BROADCAST, low=low),))).splitlines()
    assert outage == "T_r 20.0 s with a restart, 2.0 s without one"
    assert told.endswith(f"+10.0% {interval}, 50% of what the search saw{verdict}")
