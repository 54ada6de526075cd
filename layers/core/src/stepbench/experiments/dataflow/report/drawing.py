"""
A DAG's drawing: levels one after the other, each edge on a lane of its own; pure.

A stage's box stands on its level. An edge that passes a level without stopping keeps a lane free there, so that no line
crosses a box. Stages of a level are in the order of what they read, which keeps lines from crossing each other.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Literal, TypeAlias

from stepbench import digits
from stepbench.experiments.dataflow.report.words import describe_dag
from stepbench.report import document as doc

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from stepbench.contracts.dataflow.dag import Dag, EdgeKind, Stage

Way = Literal["across", "down"]
"""Levels from left to right, or on a phone from top to bottom."""
Ends: TypeAlias = tuple[str, str]
"""An edge by its producing and its consuming stage."""
Slot: TypeAlias = str | Ends
"""What takes room on a level: a stage's box, or the lane of an edge that passes."""
Place: TypeAlias = tuple[float, float]
"""Pixels in the levels' direction, and aside of it."""
BOX_PX, BOX_HEIGHT_PX = 150, 58
LEVEL_GAP_PX: dict[Way, int] = {"across": 104, "down": 46}
LANE_GAP_PX: dict[Way, int] = {"across": 26, "down": 14}
STACK_PX = 5
"""So far the boxes of a fan-out lie behind each other."""
BEGIN_PX = 10 + 2 * STACK_PX
"""Of the first box: a margin, and room for those behind it."""
LABEL_PX = 130
"""What is written to the right of the lines that lead down takes so much room."""
_DRAWN_TASKS = 3
_HEAD_PX = 5
_LETTERS_PX = 14


def draw_dag(dag: Dag, way: Way, moved_bytes: Mapping[Ends, float]) -> doc.VectorDrawing:
    """
    Return the drawing.

    Args:
        dag: what is drawn.
        way: in which direction the levels follow each other.
        moved_bytes: of one execution, by edge; of those that were not measured there is none.
    """
    layout, name = _Layout(dag, way), f"dag-{dag.name}-{way}"
    lines: list[doc.Shape] = []
    labels: list[doc.Shape] = []
    for stage in dag.stages:
        for edge in stage.inputs:
            points = layout.line(edge.stage, stage)
            style, path = f"dag-edge {edge.kind}", _path(points, way)
            lines.append(doc.Shape("path", {"class": style, "d": path, "marker-end": f"url(#{name})"}))
            labels += _labels(edge.kind, moved_bytes.get((edge.stage, stage.name)), points, way)
    boxes = [
        shape
        for level, stages in enumerate(dag.levels)
        for stage in stages
        for shape in _box(stage, _xy(layout.corners[stage.name, level], way))
    ]
    width, height = _xy((layout.onward, layout.aside), way)
    room = 2 * BEGIN_PX - 2 * STACK_PX
    written = [float(label.attributes["x"]) + LABEL_PX for label in labels if way == "down"]
    width = max(width + room, *written, 0)
    return doc.VectorDrawing((*lines, *boxes, *labels), width, height + room, describe_dag(dag), way, name)


def _xy(place: Place, way: Way) -> Place:
    return place if way == "across" else place[::-1]


class _Layout:
    """Where boxes and lanes begin, by level, and how far all of them extend."""

    def __init__(self, dag: Dag, way: Way) -> None:
        self._level_of = dag.level_of
        self._depth, self._breadth = _xy((BOX_PX, BOX_HEIGHT_PX), way)
        self._gap = LANE_GAP_PX[way]
        levels = _slots(dag)
        step = self._depth + LEVEL_GAP_PX[way]
        self.onward = len(levels) * step - LEVEL_GAP_PX[way]
        extents = [sum(map(self._size, level)) + self._gap * (len(level) - 1) for level in levels]
        self.aside = max(extents)
        self.corners: dict[tuple[Slot, int], Place] = {}
        for number, (level, extent) in enumerate(zip(levels, extents, strict=True)):
            aside = BEGIN_PX + (self.aside - extent) / 2
            for slot in level:
                self.corners[slot, number] = (float(BEGIN_PX + number * step), aside)
                aside += self._size(slot) + self._gap

    def _size(self, slot: Slot) -> float:
        return self._breadth if isinstance(slot, str) else self._gap

    def line(self, producer: str, consumer: Stage) -> list[Place]:
        """Return where an edge leaves a box, enters and leaves each lane that it takes, and comes in to a box."""
        first, last = self._level_of[producer], self._level_of[consumer.name]
        onward, aside = self.corners[producer, first]
        points = [(onward + self._depth, aside + self._breadth / 2)]
        for level in range(first + 1, last):
            onward, aside = self.corners[(producer, consumer.name), level]
            middle = aside + self._gap / 2
            points += [(onward, middle), (onward + self._depth, middle)]
        onward, aside = self.corners[consumer.name, last]
        before = _HEAD_PX + max(_behind(consumer), default=0)
        return [*points, (onward - before, aside + self._breadth / 2)]


def _slots(dag: Dag) -> list[list[Slot]]:
    """Return what lies on each level, in the order of what it reads."""
    level_of = dag.level_of
    levels: list[list[Slot]] = [[stage.name for stage in stages] for stages in dag.levels]
    before: dict[Slot, list[Slot]] = {stage.name: [] for stage in dag.stages}
    for stage in dag.stages:
        for each in stage.inputs:
            ends = (each.stage, stage.name)
            before[stage.name] += [each.stage, ends]
            before[ends] = [each.stage, ends]
            for level in range(level_of[each.stage] + 1, level_of[stage.name]):
                levels[level].append(ends)
    for above, own in pairwise(levels):
        own.sort(key=lambda slot: _mean([above.index(each) for each in before[slot] if each in above]))
    return levels


def _mean(places: list[int]) -> float:
    return sum(places) / len(places) if places else 0.0


def _path(points: list[Place], way: Way) -> str:
    """Return a line as SVG writes it: curves from level to level, straight along the lanes between them."""
    path = []
    for number, (begin, end) in enumerate(zip(points[::2], points[1::2], strict=True)):
        middle = (begin[0] + end[0]) / 2
        curve = (_xy(each, way) for each in ((middle, begin[1]), (middle, end[1]), end))
        x, y = _xy(begin, way)
        path.append(f"{'L' if number else 'M'}{x:g} {y:g}")
        path.append("C" + " ".join(f"{x:g} {y:g}" for x, y in curve))
    return " ".join(path)


def _labels(kind: EdgeKind, moved_bytes: float | None, points: list[Place], way: Way) -> Iterator[doc.Shape]:
    """Write beside the middle of a piece of the line: above and below it, above a lane, or to the right."""
    is_passing = len(points) > 2  # noqa: PLR2004 -- both ends
    (x1, y1), (x2, y2) = (_xy(each, way) for each in (points[1:3] if is_passing else points))
    x, y = (x1 + x2) / 2, (y1 + y2) / 2
    texts = [kind] if moved_bytes is None else [kind, digits.size(moved_bytes)]
    anchor = "middle"
    if way == "down":
        texts, x, y, anchor = [", ".join(texts)], x + 6, y + 4, "start"
    elif is_passing:
        texts, y = [", ".join(texts)], y - 5
    else:
        y -= 6
    for number, text in enumerate(texts):
        at = {"x": x, "y": y + number * (_LETTERS_PX + 6)}
        yield doc.Shape("text", {"class": "dag-label", **at, "text-anchor": anchor}, text)


def _behind(stage: Stage) -> tuple[float, ...]:
    """Return how far the boxes lie off that stand behind it, the furthest first: a fan-out is seen as several."""
    return tuple(float(STACK_PX * each) for each in range(min(stage.tasks, _DRAWN_TASKS) - 1, 0, -1))


def _box(stage: Stage, corner: Place) -> Iterator[doc.Shape]:
    """Yield the boxes of a stage's tasks, the foremost last, and what is written in it."""
    x, y = corner
    for off in (*_behind(stage), 0.0):
        at = {"x": x - off, "y": y - off, "width": BOX_PX, "height": BOX_HEIGHT_PX}
        yield doc.Shape("rect", {"class": "dag-box", **at, "rx": 5})
    reads = ", reads the input" if stage.takes_input else ""
    lines = (
        (19, "dag-stage", stage.name),
        (34, "dag-task", stage.task),
        (49, "dag-task", f"{digits.counted(stage.tasks, 'task')}{reads}"),
    )
    for below, style, text in lines:
        yield doc.Shape("text", {"class": style, "x": x + BOX_PX / 2, "y": y + below}, text)
