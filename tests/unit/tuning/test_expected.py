"""What DAGs ask of their store."""

from __future__ import annotations

import pytest
from tests.samples.dags import dataflow_trial, stage
from tests.samples.refusals import plan_of

from stepbench.contracts.dataflow.dag import Dag
from stepbench.planning import expand, parse_plan
from stepbench.tuning.expected import expected_from, workload_of


def dag(*stages: dict[str, object]) -> Dag:
    """Return a DAG of these stages."""
    return Dag.model_validate({"name": "dag", "stages": stages})


def test_a_scatter_is_read_as_often_as_written_and_a_broadcast_more_often() -> None:
    """By hand: four parts, each read once; and one object that six read, with six that one gathers: 12 of 19."""
    scatter = workload_of(dag(stage("split"), stage("map", ("split", "scatter"), tasks=4)))
    broadcast = dag(stage("pca"), stage("train", ("pca", "broadcast"), tasks=6), stage("join", ("train", "gather")))
    assert scatter is not None
    assert (scatter.read_share, scatter.clients) == (0.5, 4)
    assert workload_of(broadcast) == scatter.model_copy(update={"read_share": 12 / 19, "clients": 6})


def test_sizes_are_taken_together_on_a_logarithmic_scale() -> None:
    """By hand: one object of 1 MiB and one of 4 KiB are as far from 64 KiB."""
    first, second = ({"parameters": {"output_bytes": each}} for each in (2**20, 4_096))
    found = workload_of(
        dag({**stage("a"), **first}, {**stage("b", ("a", "gather")), **second}, stage("c", ("b", "gather")))
    )
    assert found is not None
    assert found.blob_bytes == 65_536


def test_a_dag_that_passes_nothing_on_asks_for_nothing() -> None:
    """There is nothing to configure a store for."""
    assert workload_of(dag(stage("alone", tasks=3))) is None


def test_a_closed_phase_lasts_as_long_as_its_executions_took() -> None:
    """By hand: five in series of 3 s each; before any was seen, the bound of 60 s is all that is known."""
    closed = {"clients": 1, "duration_s": 60, "operations": 5}
    document = dataflow_trial(phases=[{"name": "a", "closed": closed}, {"name": "b", "closed": closed}])
    trial = expand(parse_plan(plan_of(document)), "run")[0].offered
    assert [each.duration_s for each in expected_from(trial, 0)] == [60, 60]
    assert [each.duration_s for each in expected_from(trial, 1, {trial.dags[0].name: 3.0})] == pytest.approx([15])
