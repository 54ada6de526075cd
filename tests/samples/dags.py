"""DAGs as their authors write them, small enough to count by hand."""

from __future__ import annotations

from typing import Any

from stepbench.contracts.dataflow.dag import Dag


def stage(name: str, *inputs: tuple[str, str], tasks: int = 1, **fields: Any) -> dict[str, Any]:  # noqa: ANN401 -- a stage's fields
    """Return a stage of synthetic tasks; an input is a stage and a kind of edge."""
    edges = [{"stage": before, "kind": kind} for before, kind in inputs]
    return {"name": name, "task": "synthetic.work", "tasks": tasks, "inputs": edges, "timeout_s": 20, **fields}


DIAMOND: dict[str, Any] = {
    "name": "diamond",
    "stages": [
        stage("split"),
        stage("map", ("split", "scatter"), tasks=4),
        stage("model", ("split", "broadcast"), tasks=2),
        stage("join", ("map", "gather"), ("model", "broadcast")),
    ],
}
"""Of three levels and 8 tasks; 4 + 1 + 4 + 2 objects, read 4 + 2 + 4 + 2 times."""


SMALL: dict[str, Any] = {
    "name": "small",
    "input": {"maker": "synthetic.bytes", "parameters": {"input_bytes": 1_000}},
    "stages": [
        stage("split", parameters={"output_bytes": 2_000}),
        stage("map", ("split", "scatter"), tasks=2),
        stage("join", ("map", "gather")),
    ],
}
"""Of three levels and 4 tasks, with an input; 2 + 2 objects, each read once."""


def dag_of(*stages: dict[str, Any], name: str = "dag") -> Dag:
    """Return a DAG of these stages."""
    return Dag.model_validate({"name": name, "stages": stages})


def dataflow_trial(dag: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:  # noqa: ANN401 -- a trial's fields
    """Return a trial of `dataflow` on S3 that starts two executions."""
    return {
        "experiment": "dataflow",
        "target": {"store": "s3"},
        "dags": [dag or DIAMOND],
        "phases": [{"name": "run", "load": [{"rate_per_s": 1, "count": 2}]}],
        **fields,
    }
