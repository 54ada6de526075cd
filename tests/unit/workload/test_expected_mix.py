"""What a store has to expect of a DAG, counted by hand."""

from __future__ import annotations

import pytest
from tests.samples.dags import DIAMOND, dag_of, stage

from stepbench.contracts.dataflow.dag import Dag
from stepbench.workload.expected_mix import expected_mix
from stepbench.workload.topology import all_objects, read_by


def _mix_of(kind: str, before: int, after: int) -> tuple[str, float, int, int]:
    edge = expected_mix(dag_of(stage("a", tasks=before), stage("b", ("a", kind), tasks=after))).edges[0]
    return edge.mix, edge.read_share, edge.writes, edge.reads


@pytest.mark.parametrize(
    ("kind", "before", "after", "expected"),
    [
        ("scatter", 1, 4, ("balanced", 0.5, 4, 4)),
        ("broadcast", 1, 4, ("read-heavy", 0.8, 1, 4)),
        ("gather", 6, 1, ("write-heavy", 0.5, 6, 6)),
        ("broadcast", 3, 1, ("balanced", 0.5, 3, 3)),
        ("gather", 2, 2, ("balanced", 0.5, 2, 2)),
    ],
)
def test_an_edge_asks_for_what_its_kind_says(
    kind: str, before: int, after: int, expected: tuple[str, float, int, int]
) -> None:
    """A store is tuned by it: for reads where many read what one wrote, for writes where many write at once."""
    assert _mix_of(kind, before, after) == expected


def test_the_whole_is_what_the_tasks_do() -> None:
    """Of the diamond: counted object by object as the tasks themselves count them."""
    dag = Dag.model_validate(DIAMOND)
    mix = expected_mix(dag)
    read = sum(len(read_by(dag, each, task)) for each in dag.stages for task in range(each.tasks))
    assert (mix.objects, mix.reads) == (len(all_objects(dag)), read) == (11, 12)
    assert [(level.reads, level.writes, level.concurrency) for level in mix.levels] == [(0, 5, 1), (6, 6, 6), (6, 0, 1)]
    assert mix.text.startswith("diamond: 8 tasks on 3 levels, up to 6 at once; 11 objects written, 12 reads (")


def test_sizes_follow_the_parameters() -> None:
    """The first hands on half of 1,000 bytes to each of two; these read 250 B each and make 40 B of them."""
    shape = [
        stage("a", parameters={"output_ratio": 0.5}),
        stage("b", ("a", "scatter"), tasks=2, parameters={"output_bytes": 40}),
        stage("c", ("b", "broadcast"), tasks=3),
    ]
    made = {"maker": "synthetic.bytes", "parameters": {"input_bytes": 1_000}}
    mix = expected_mix(Dag.model_validate({"name": "dag", "stages": shape, "input": made}))
    assert [edge.blob_bytes for edge in mix.edges] == [250, 40]
    assert (mix.written_bytes, mix.read_bytes) == (2 * 250 + 2 * 40, 2 * 250 + 6 * 40)


def test_unknown_sizes_stay_unknown() -> None:
    """A number that leaves out what nobody knows would look like the whole."""
    mix = expected_mix(dag_of({**stage("a"), "task": "video.split"}, stage("b", ("a", "scatter"))))
    assert mix.written_bytes is None
    assert "sizes known to the application only" in mix.text
