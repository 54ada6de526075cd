"""A DAG's drawing: levels in order, lines that cross no box, sizes on the edges."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.samples.dataflow_findings import LEARNING, VIDEO

from stepbench.contracts.dataflow.dag import Dag, Stage
from stepbench.experiments.dataflow.report.drawing import BOX_HEIGHT_PX, BOX_PX, Way, draw_dag

if TYPE_CHECKING:
    from stepbench.report.document import VectorDrawing


def boxes(drawing: VectorDrawing) -> dict[str, list[dict[str, Any]]]:
    """Return the boxes of each stage, the foremost last, in the order that they are drawn in."""
    found: dict[str, list[dict[str, Any]]] = {}
    pending: list[dict[str, Any]] = []
    for shape in drawing.shapes:
        if shape.tag == "rect":
            pending.append(dict(shape.attributes))
        elif shape.attributes["class"] == "dag-stage":
            found[shape.text], pending = pending, []
    return found


@pytest.mark.parametrize("way", ["across", "down"])
def test_levels_follow_each_other_in_the_drawings_way(way: Way) -> None:
    """On paper from left to right, on a phone from top to bottom."""
    found = boxes(draw_dag(VIDEO, way, {}))
    onward = [own[-1]["x" if way == "across" else "y"] for own in found.values()]
    assert list(found) == ["split", "extract", "classify", "labels"]
    assert onward == sorted(set(onward))


@pytest.mark.parametrize("way", ["across", "down"])
def test_everything_lies_within_the_drawing(way: Way) -> None:
    """What lies outside of an SVG's box is cut off."""
    drawing = draw_dag(LEARNING, way, {})
    for box in (box for own in boxes(drawing).values() for box in own):
        assert min(box["x"], box["y"]) >= 0
        assert box["x"] + BOX_PX <= drawing.width_px
        assert box["y"] + BOX_HEIGHT_PX <= drawing.height_px


def test_an_edge_that_passes_a_level_keeps_clear_of_its_boxes() -> None:
    """The forest's test reads what PCA has made, past the trainers."""
    drawing = draw_dag(LEARNING, "across", {("pca", "test"): 2_097_152})
    furthest, *_, train = boxes(drawing)["train"]
    (label,) = (dict[str, Any](each.attributes) for each in drawing.shapes if each.text == "broadcast, 2 MiB")
    assert train["x"] < label["x"] < train["x"] + BOX_PX
    assert label["y"] > train["y"] + BOX_HEIGHT_PX or label["y"] < furthest["y"]


def test_a_fan_out_is_seen_as_several() -> None:
    """A box behind it for each further task, and no more than two."""
    found = {name: len(own) for name, own in boxes(draw_dag(VIDEO, "across", {})).items()}
    assert found == {"split": 1, "extract": 3, "classify": 3, "labels": 1}


def test_a_dag_of_one_stage_is_a_box() -> None:
    """It passes no data, and is a DAG all the same."""
    drawing = draw_dag(Dag(name="one", stages=(Stage(name="only", task="synthetic.work"),)), "across", {})
    assert [shape.tag for shape in drawing.shapes] == ["rect", "text", "text", "text"]
