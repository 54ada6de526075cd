"""A DAG as data, and the trial that starts it: what is refused, with the way out, and what follows from it."""

from __future__ import annotations

from typing import Any

import pytest
from tests.samples.dags import DIAMOND, dataflow_trial, stage
from tests.samples.refusals import Refused, check_trial, plan_of, problems_of_plan

from stepbench.contracts.dataflow.dag import Dag
from stepbench.planning import expand, parse_plan

TWO_DAGS = [DIAMOND, {"name": "line", "stages": [stage("only")]}]


def test_a_stage_stands_on_the_first_level_that_its_inputs_allow() -> None:
    """Both that read the split run at once; the join waits for the slower one."""
    levels = Dag.model_validate(DIAMOND).levels
    assert [[each.name for each in level] for level in levels] == [["split"], ["map", "model"], ["join"]]


def test_an_execution_is_given_up_after_the_longest_task_of_each_level() -> None:
    """By hand: 20 s on each of three levels, which follow each other."""
    assert Dag.model_validate(DIAMOND).longest_s == 60


def test_a_phase_starts_the_dag_that_it_names() -> None:
    """Two applications take turns as the published dynamic workload's do; a lone DAG need not be named."""
    phases = [{"name": name, "dag": name, "load": [{"rate_per_s": 1, "count": 1}]} for name in ("diamond", "line")]
    trial = expand(parse_plan(plan_of(dataflow_trial(dags=TWO_DAGS, phases=phases))), "run")[0].offered
    assert [trial.dag_of(phase).name for phase in trial.phases] == ["diamond", "line"]
    alone = expand(parse_plan(plan_of(dataflow_trial())), "run")[0].offered
    assert alone.dag_of(alone.phases[0]).name == "diamond"


@pytest.mark.parametrize(
    ("inputs", "cycle"),
    [({"source": "side"}, "source, side"), ({"wide": "wide"}, "wide")],
    ids=["two stages", "itself"],
)
def test_only_stages_on_a_circle_are_said_to_be(inputs: dict[str, str], cycle: str) -> None:
    """Those behind it are innocent, and changing their edges helps nobody."""
    before = {"source": [], "wide": ["source"], "side": ["source"], "sink": ["wide", "side"]}
    stages = [
        stage(name, *((each, "gather") for each in [*edges, *([inputs[name]] if name in inputs else [])]))
        for name, edges in before.items()
    ]
    (problem,) = problems_of_plan(plan_of(of_stages(*stages)))
    assert problem.message == f"go round in a circle: {cycle}"


def of_stages(*stages: dict[str, Any]) -> dict[str, Any]:
    """Return a trial whose only DAG has these stages."""
    return dataflow_trial({"name": "dag", "stages": list(stages)})


@pytest.mark.parametrize(
    "refused",
    [
        Refused(of_stages(stage("a", ("b", "gather"))), "dags[0].stages[0].inputs[0].stage", '"b"', "one of a"),
        Refused(
            of_stages(stage("a"), stage("b", ("a", "gather"), ("a", "broadcast"))),
            "dags[0].stages[1].inputs[1].stage",
            '"a"',
            "Remove one",
        ),
        Refused(
            of_stages(stage("a"), stage("b", ("a", "gather"), ("c", "gather")), stage("c", ("b", "gather"))),
            "dags[0].stages[1].inputs",
            "",
            "Remove an edge",
            "b, c",
        ),
        Refused(
            of_stages(stage("a", tasks=2), stage("b", ("a", "scatter"), tasks=3)),
            "dags[0].stages[1].inputs[0].kind",
            '"scatter"',
            "multiple of 2",
        ),
        Refused(
            of_stages(stage("a", tasks=3), stage("b", ("a", "gather"), tasks=2)),
            "dags[0].stages[1].inputs[0].kind",
            '"gather"',
            "divide 3",
        ),
        Refused(
            of_stages(stage("a", tasks=200), stage("b", ("a", "broadcast"), tasks=200)),
            "dags[0].stages",
            "",
            "broadcast",
            "40,000 reads",
        ),
        Refused(of_stages(stage("a"), stage("a")), "dags[0].stages[1].name", '"a"', "a name of its own"),
        Refused(
            of_stages(stage("a", tasks=600), stage("b", tasks=600)), "dags[0].stages", "", "Lower tasks", "1,200 tasks"
        ),
        Refused(dataflow_trial(dags=[]), "dags", "", "Give a DAG"),
        Refused(dataflow_trial(dags=TWO_DAGS), "phases[0].dag", "", "diamond, line"),
        Refused(dataflow_trial(target={"store": "etcd"}), "target.store", '"etcd"', "cassandra, redis, s3"),
        Refused(
            {
                "experiment": "operations",
                "target": {"store": "cassandra", "tuning": {"mode": "adaptive"}},
                "workload": {"mix": {"read": 1}, "records": 100},
                "phases": [{"name": "run", "closed": {"clients": 1, "duration_s": 60}}],
            },
            "target.tuning",
            '"adaptive"',
            "Remove it",
        ),
        Refused(
            dataflow_trial(target={"store": "cassandra", "endpoint": "10.0.0.1:9042", "tuning": {"mode": "adaptive"}}),
            "target.tuning",
            '"adaptive"',
            "Remove one of the two",
            "another server",
        ),
        Refused(
            dataflow_trial(target={"store": "cassandra", "endpoint": "10.0.0.1:9042", "host": "m5.large"}),
            "target.host",
            '"m5.large"',
            "Remove one",
            "is one of the stack's",
        ),
        Refused(dataflow_trial(drain_limit_s=50), "drain_limit_s", "50", "Raise it", "60 s"),
        Refused(dataflow_trial(log_t4="all"), "log_t4", '"all"', "Remove it"),
        Refused(dataflow_trial(target={"store": "s3", "suffix": ".bin"}), "target.suffix", '".bin"', "Remove it"),
        Refused(
            dataflow_trial(phases=[{"name": "run", "closed": {"clients": 1, "duration_s": 60}}]),
            "phases[0].closed.operations",
            "",
            "Give it",
        ),
        Refused({**dataflow_trial(), "experiment": "trigger"}, "dags", "", '"dataflow"'),
    ],
)
def test_what_cannot_be_run_is_refused_with_the_way_out(refused: Refused) -> None:
    """Nothing is made for a DAG that could never end, or whose objects nobody could share out."""
    check_trial(refused)
