"""A DAG's drawing: levels in order, lines that cross no box, sizes on the edges."""

from __future__ import annotations

import pytest
from tests.samples.dataflow_findings import LEARNING, VIDEO

from stepbench.contracts.dataflow.dag import Dag, Stage
from stepbench.experiments.dataflow.report.drawing import BOX_HEIGHT_PX, BOX_PX, Way, draw_dag


@pytest.mark.parametrize("way", ["across", "down"])
def test_levels_follow_each_other_in_the_drawings_way(way: Way) -> None:
    """On paper from left to right, on a phone from top to bottom."""
    boxes = draw_dag(VIDEO, way).boxes
    onward = [box.x if way == "across" else box.y for box in boxes]
    assert [box.stage.name for box in boxes] == ["split", "extract", "classify", "labels"]
    assert onward == sorted(onward)
    assert len(set(onward)) == 4


@pytest.mark.parametrize("way", ["across", "down"])
def test_everything_lies_within_the_drawing(way: Way) -> None:
    """What lies outside of an SVG's box is cut off."""
    drawing = draw_dag(LEARNING, way)
    for box in drawing.boxes:
        assert min(box.x, box.y) >= max(box.behind, default=0)
        assert box.x + BOX_PX <= drawing.width_px
        assert box.y + BOX_HEIGHT_PX <= drawing.height_px


def test_an_edge_that_passes_a_level_keeps_clear_of_its_boxes() -> None:
    """The forest's test reads what PCA has made, past the trainers."""
    drawing = draw_dag(LEARNING, "across", {("pca", "test"): 2_097_152})
    train = next(box for box in drawing.boxes if box.stage.name == "train")
    passing = next(line for line in drawing.lines if (line.edge.producer, line.edge.consumer) == ("pca", "test"))
    (label,) = passing.labels
    assert label.text == "broadcast, 2 MiB"
    assert train.x < label.x < train.x + BOX_PX
    assert label.y > train.y + BOX_HEIGHT_PX or label.y < train.y - max(train.behind)


def test_a_fan_out_is_seen_as_several() -> None:
    """A box behind it for each further task, and no more than two."""
    behind = {box.stage.name: len(box.behind) for box in draw_dag(VIDEO, "across").boxes}
    assert behind == {"split": 0, "extract": 2, "classify": 2, "labels": 0}


def test_a_dag_of_one_stage_is_a_box() -> None:
    """It passes no data, and is a DAG all the same."""
    drawing = draw_dag(Dag(name="one", stages=(Stage(name="only", task="synthetic.work"),)), "across")
    assert (len(drawing.boxes), drawing.lines) == (1, ())
