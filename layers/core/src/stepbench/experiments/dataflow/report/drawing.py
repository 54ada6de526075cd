"""
Where the boxes and lines of a DAG's drawing lie: levels one after the other, each edge on a lane of its own; pure.

A stage's box stands on its level. An edge that passes a level without stopping keeps a lane free there, so that no line
crosses a box. Stages of a level are in the order of what they read, which keeps lines from crossing each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

from stepbench import digits
from stepbench.report import document as doc

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from stepbench.contracts.dataflow.dag import Dag, EdgeKind, Stage

Way = Literal["across", "down"]
"""Levels from left to right, or on a phone from top to bottom."""
BOX_PX, BOX_HEIGHT_PX = 150, 58
LEVEL_GAP_PX: dict[Way, int] = {"across": 104, "down": 46}
LANE_GAP_PX: dict[Way, int] = {"across": 26, "down": 14}
MARGIN_PX = 10
STACK_PX = 5
"""So far the boxes of a fan-out lie behind each other."""
LABEL_PX = 130
"""What is written to the right of the lines that lead down takes so much room."""
_DRAWN_TASKS = 3
_HEAD_PX = 5
_LETTERS_PX = 14


class Edge(NamedTuple):
    """An edge by its ends' names; moved_bytes: what one execution moves over it, None where nothing was measured."""

    producer: str
    consumer: str
    kind: EdgeKind
    moved_bytes: float | None = None


@dataclass(frozen=True)
class Box:
    """One stage of the drawing; x and y are its upper left corner."""

    stage: Stage
    x: float
    y: float
    width: ClassVar = BOX_PX
    height: ClassVar = BOX_HEIGHT_PX

    @property
    def behind(self) -> tuple[float, ...]:
        """Return how far the boxes lie off that stand behind it, the furthest first: a fan-out is seen as several."""
        return tuple(float(STACK_PX * each) for each in range(min(self.stage.tasks, _DRAWN_TASKS) - 1, 0, -1))

    @property
    def fan_out(self) -> str:
        """Return how many tasks it is."""
        return digits.counted(self.stage.tasks, "task")


class Label(NamedTuple):
    """A line of text; anchor: which end of it lies at x, as SVG says it."""

    text: str
    x: float
    y: float
    anchor: Literal["middle", "start"]


@dataclass(frozen=True)
class Line:
    """One edge of the drawing: its path, and what is written beside it: what it is, and what it moves."""

    edge: Edge
    path: str
    labels: tuple[Label, ...]


@dataclass(frozen=True)
class DagDrawing:
    """The drawing of a DAG."""

    way: Way
    width_px: float
    height_px: float
    boxes: tuple[Box, ...]
    lines: tuple[Line, ...]

    def as_shapes(self, name: str, description: str) -> doc.VectorDrawing:
        """Return it as a page draws it: `name` is that of its arrow heads."""
        ends = {"marker-end": f"url(#{name})"}
        shapes = [
            *(
                doc.Shape("path", {"class": f"dag-edge {line.edge.kind}", "d": line.path, **ends})
                for line in self.lines
            ),
            *(shape for box in self.boxes for shape in _box_shapes(box)),
            *(
                doc.Shape(
                    "text", {"class": "dag-label", "x": each.x, "y": each.y, "text-anchor": each.anchor}, each.text
                )
                for line in self.lines
                for each in line.labels
            ),
        ]
        return doc.VectorDrawing(tuple(shapes), self.width_px, self.height_px, description, self.way, name)


def _box_shapes(box: Box) -> Iterator[doc.Shape]:
    """Yield the boxes of a stage's tasks, the foremost last, and what is written in it."""
    for off in (*box.behind, 0.0):
        at = {"x": box.x - off, "y": box.y - off} if off else {"x": box.x, "y": box.y}
        yield doc.Shape("rect", {"class": "dag-box", **at, "width": box.width, "height": box.height, "rx": 5})
    reads = ", reads the input" if box.stage.takes_input else ""
    lines = (
        (19, "dag-stage", box.stage.name),
        (34, "dag-task", box.stage.task),
        (49, "dag-task", f"{box.fan_out}{reads}"),
    )
    for below, style, text in lines:
        yield doc.Shape("text", {"class": style, "x": box.x + box.width / 2, "y": box.y + below}, text)


Point = tuple[float, float]


class _Slot(NamedTuple):
    """A place on a level: a stage's box, or the lane of an edge (by its ends) that passes."""

    stage: str | None
    edge: tuple[str, str] | None = None


class _Placed(NamedTuple):
    """Everything that a line needs to know: boxes and levels by stage, the upper left corner of each slot by level."""

    way: Way
    boxes: Mapping[str, Box]
    level_of: Mapping[str, int]
    corners: Mapping[tuple[_Slot, int], Point]


def draw_dag(dag: Dag, way: Way, moved_bytes: Mapping[tuple[str, str], float] | None = None) -> DagDrawing:
    """
    Return the drawing.

    Args:
        dag: what is drawn.
        way: in which direction the levels follow each other.
        moved_bytes: of one execution, by producing and consuming stage.
    """
    levels = _slots(dag)
    corners = _corners(levels, way)
    boxes = tuple(Box(stage, *corners[_Slot(stage.name), level]) for level, stage in _placed(dag))
    placed = _Placed(
        way, {box.stage.name: box for box in boxes}, {stage.name: at for at, stage in _placed(dag)}, corners
    )
    lines = tuple(_line(edge, placed) for edge in edges(dag, moved_bytes or {}))
    across = len(levels) * BOX_PX + (len(levels) - 1) * LEVEL_GAP_PX[way]
    down = len(levels) * BOX_HEIGHT_PX + (len(levels) - 1) * LEVEL_GAP_PX[way]
    along = _breadth(levels, way)
    width, height = (across, along) if way == "across" else (along, down)
    room = 2 * MARGIN_PX + 2 * STACK_PX
    written = [label.x + LABEL_PX for line in lines for label in line.labels if label.anchor == "start"]
    return DagDrawing(way, max(width + room, *written, 0), height + room, boxes, lines)


def edges(dag: Dag, moved_bytes: Mapping[tuple[str, str], float]) -> tuple[Edge, ...]:
    """Return all edges, in the order of the consuming stages."""
    return tuple(
        Edge(each.stage, stage.name, each.kind, moved_bytes.get((each.stage, stage.name)))
        for stage in dag.stages
        for each in stage.inputs
    )


def _placed(dag: Dag) -> list[tuple[int, Stage]]:
    return [(level, stage) for level, stages in enumerate(dag.levels) for stage in stages]


def _slots(dag: Dag) -> list[list[_Slot]]:
    """Return what lies on each level, in the order of what it reads."""
    level_of = dag.level_of
    levels = [[_Slot(stage.name) for stage in stages] for stages in dag.levels]
    for edge in edges(dag, {}):
        for level in range(level_of[edge.producer] + 1, level_of[edge.consumer]):
            levels[level].append(_Slot(None, (edge.producer, edge.consumer)))
    sources = {stage.name: [each.stage for each in stage.inputs] for stage in dag.stages}
    for above, own in pairwise(levels):
        rank = {slot: place for place, slot in enumerate(above)}
        own.sort(key=lambda slot: _mean_rank(slot, rank, sources))
    return levels


def _mean_rank(slot: _Slot, rank: Mapping[_Slot, int], sources: Mapping[str, Sequence[str]]) -> float:
    """Return the mean place, on the level above, of what leads here."""
    if slot.edge is not None:
        before = [_Slot(slot.edge[0]), slot]
    else:
        own = slot.stage or ""
        before = [each for name in sources[own] for each in (_Slot(name), _Slot(None, (name, own)))]
    places = [rank[each] for each in before if each in rank]
    return sum(places) / len(places) if places else 0.0


def _size(slot: _Slot, way: Way) -> float:
    """Return how much room a slot takes across the levels' direction."""
    box = BOX_HEIGHT_PX if way == "across" else BOX_PX
    return box if slot.edge is None else LANE_GAP_PX[way]


def _extent(level: Sequence[_Slot], way: Way) -> float:
    return sum(_size(slot, way) for slot in level) + LANE_GAP_PX[way] * (len(level) - 1)


def _breadth(levels: Sequence[Sequence[_Slot]], way: Way) -> float:
    return max(_extent(level, way) for level in levels)


def _corners(levels: Sequence[Sequence[_Slot]], way: Way) -> dict[tuple[_Slot, int], Point]:
    """Return the upper left corner of each slot on its level; levels are centred."""
    breadth, found = _breadth(levels, way), {}
    step = (BOX_PX if way == "across" else BOX_HEIGHT_PX) + LEVEL_GAP_PX[way]
    for number, level in enumerate(levels):
        along = MARGIN_PX + 2 * STACK_PX + (breadth - _extent(level, way)) / 2
        onward = float(MARGIN_PX + 2 * STACK_PX + number * step)
        for slot in level:
            found[slot, number] = (onward, along) if way == "across" else (along, onward)
            along += _size(slot, way) + LANE_GAP_PX[way]
    return found


def _line(edge: Edge, placed: _Placed) -> Line:
    """Return an edge's path, from box to box, straight along the lanes of the levels that it passes."""
    way, levels = placed.way, placed.level_of
    lane = _Slot(None, (edge.producer, edge.consumer))
    at = _leaving(placed.boxes[edge.producer], way)
    end = _coming(placed.boxes[edge.consumer], way)
    path, lanes = [f"M{at[0]:g} {at[1]:g}"], []
    for level in range(levels[edge.producer] + 1, levels[edge.consumer]):
        enter, leave = _lane(placed.corners[lane, level], way)
        path += [_curve(at, enter, way), f"L{leave[0]:g} {leave[1]:g}"]
        lanes.append((enter, leave))
        at = leave
    path.append(_curve(at, end, way))
    on_lane = lanes[0] if lanes else None
    return Line(edge, " ".join(path), _labels(edge, on_lane or (at, end), way, passing=on_lane is not None))


def _labels(edge: Edge, piece: tuple[Point, Point], way: Way, *, passing: bool) -> tuple[Label, ...]:
    """Write beside the middle of a piece of the line: above and below it, above a lane, or to the right."""
    (x1, y1), (x2, y2) = piece
    x, y = (x1 + x2) / 2, (y1 + y2) / 2
    texts = [edge.kind] if edge.moved_bytes is None else [edge.kind, digits.size(edge.moved_bytes)]
    if way == "down":
        return (Label(", ".join(texts), x + 6, y + 4, "start"),)
    if passing:
        return (Label(", ".join(texts), x, y - 5, "middle"),)
    return tuple(Label(text, x, y - 6 + place * (_LETTERS_PX + 6), "middle") for place, text in enumerate(texts))


def _leaving(box: Box, way: Way) -> Point:
    """Return where lines leave a box."""
    if way == "across":
        return (box.x + BOX_PX, box.y + BOX_HEIGHT_PX / 2)
    return (box.x + BOX_PX / 2, box.y + BOX_HEIGHT_PX)


def _coming(box: Box, way: Way) -> Point:
    """Return where lines come in to a box: before those that stand behind it."""
    before = _HEAD_PX + max(box.behind, default=0)
    if way == "across":
        return (box.x - before, box.y + BOX_HEIGHT_PX / 2)
    return (box.x + BOX_PX / 2, box.y - before)


def _lane(corner: Point, way: Way) -> tuple[Point, Point]:
    """Return where a passing line enters a level, and where it leaves it."""
    x, y = corner
    middle = LANE_GAP_PX[way] / 2
    if way == "across":
        return (x, y + middle), (x + BOX_PX, y + middle)
    return (x + middle, y), (x + middle, y + BOX_HEIGHT_PX)


def _curve(begin: Point, end: Point, way: Way) -> str:
    if way == "across":
        middle = (begin[0] + end[0]) / 2
        return f"C{middle:g} {begin[1]:g} {middle:g} {end[1]:g} {end[0]:g} {end[1]:g}"
    middle = (begin[1] + end[1]) / 2
    return f"C{begin[0]:g} {middle:g} {end[0]:g} {middle:g} {end[0]:g} {end[1]:g}"
