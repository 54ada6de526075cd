"""The plan's JSON Schema, the parts of it that pydantic's errors are about, and paths such as `trials[0].writers`."""

from __future__ import annotations

import copy
import re
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from stepbench.contracts.plan import EXPERIMENT, TRIAL_MODELS, Plan

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

Node = dict[str, Any]
Step = str | int

_DEEPEST = 6
_STEP = re.compile(r"\w+|\*")
ROOT = "plan"
"""The path of a problem with the plan as a whole."""


def plan_schema() -> Node:
    """Return a plan's JSON Schema (draft 2020-12), as in `docs/plan.schema.json`; without rules that span fields."""
    schema = Plan.model_json_schema()
    mapping = {name: f"#/$defs/{model.__name__}" for name, model in TRIAL_MODELS.items()}
    options = [{"$ref": each} for each in dict.fromkeys(mapping.values())]
    discriminator = {"propertyName": EXPERIMENT, "mapping": mapping}
    schema["properties"]["trials"]["items"] = {"oneOf": options, "discriminator": discriminator}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "Stepbench plan"}


class Location(NamedTuple):
    """The location of an error: its path for humans, the steps in the user's own document, and the schema there."""

    path: str
    steps: tuple[Step, ...]
    node: Node
    parent: Node


def locate(location: Sequence[Step]) -> Location:
    """
    Return the location of a pydantic error.

    Pydantic names the chosen member of a union in its locations (`target`, `dynamodb`, `batch_size`); those segments
    are in no user's document, so they are dropped.
    """
    node, parent = _resolve(plan_schema_cached()), {}
    steps: list[Step] = []
    for segment in location:
        chosen = _member(node, segment)
        if chosen is not None:
            node = chosen
            continue
        steps.append(segment)
        node, parent = _step(node, segment), node
    return Location(path_text(steps), tuple(steps), node, parent)


def path_text(steps: Iterable[Step]) -> str:
    """Return `trials[0].phases[1].rate_per_s`."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)
    return text.removeprefix(".") or ROOT


def steps_of(path: str) -> tuple[Step, ...]:
    """Return `("trials", 0, "writers")` of `trials[0].writers`; `*` is a step, too."""
    return tuple(int(step) if step.isdigit() else step for step in _STEP.findall(path))


def put_value(document: Any, full: Any, steps: Sequence[Step], value: Any) -> None:  # noqa: ANN401 -- any JSON
    """Put a value into a document; what was left out on the way there is taken from `full`, which has all defaults."""
    for step in steps[:-1]:
        full = full[step]
        if isinstance(document, dict) and document.get(str(step)) is None:
            document[step] = copy.deepcopy(full)
        document = document[step]
    document[steps[-1]] = copy.deepcopy(value)


def fields(node: Node) -> list[str]:
    """Return the names that an object may have, in the schema's order."""
    return list(node.get("properties", {}))


def place_of(name: str, around: Location, document: Node) -> str:
    """
    Return the path at which a field of this name may stand: the nearest below the object that it is in, else above it.

    Of a union it is the member that the document has chosen; empty if there is no such place.
    """
    level = [(around.steps[:-1], around.parent)]
    while level:
        level = [found for place in level for found in _children(*place, document) if len(found[0]) <= _DEEPEST]
        for steps, node in level:
            if name in fields(node):
                return path_text((*steps, name))
    for depth in range(len(around.steps) - 2, -1, -1):
        steps = around.steps[:depth]
        if name in fields(node_at(steps, document)):
            return path_text((*steps, name))
    return ""


def node_at(steps: Sequence[Step], document: Node) -> Node:
    """Return the schema of what stands at some steps of a document; of a union the member that it has chosen."""
    node = _resolve(plan_schema_cached())
    for depth, step in enumerate(steps, start=1):
        node = _chosen(_step(node, step), value_at(document, steps[:depth]))
    return node


def _chosen(node: Node, value: Any) -> Node:  # noqa: ANN401 -- any JSON
    """Return the member of a union that a value has chosen by its tag; what is no union as it is."""
    tag = node.get("discriminator", {}).get("propertyName")
    named = value.get(tag, _default_of(node, tag)) if tag and isinstance(value, dict) else None
    return (_member(node, named) if isinstance(named, str) else None) or node


def _default_of(node: Node, tag: str) -> str | None:
    """Return the tag that an object without one has, if a member of the union has a default for it."""
    members = (_resolve(option)["properties"].get(tag, {}) for option in node.get("oneOf", ()))
    return next((member["default"] for member in members if "default" in member), None)


def _children(steps: tuple[Step, ...], parent: Node, document: Node) -> Iterator[tuple[tuple[Step, ...], Node]]:
    """Yield the objects that may stand in an object; of a list the first."""
    for name in fields(parent):
        node, below = _step(parent, name), (*steps, name)
        if "items" in node:
            node, below = _step(node, 0), (*below, 0)
        yield below, _chosen(node, value_at(document, below))


def value_at(document: Any, steps: Sequence[Step], default: Any = None) -> Any:  # noqa: ANN401 -- any JSON
    """Return what a document holds at some steps, `default` where it holds nothing."""
    for step in steps:
        try:
            document = document[step]
        except (KeyError, IndexError, TypeError):
            return default
    return document


@cache
def plan_schema_cached() -> Node:
    """Return `plan_schema`, built once; not to be changed."""
    return plan_schema()


def _resolve(node: Node) -> Node:
    """Follow `$ref`, and take what is not null of an optional field; a description beside them is kept."""
    rest = {key: value for key, value in node.items() if key not in {"$ref", "anyOf"}}
    if "$ref" in node:
        name = node["$ref"].rpartition("/")[2]
        return _resolve({**plan_schema_cached()["$defs"][name], **rest})
    if "anyOf" in node:
        some = [option for option in node["anyOf"] if option.get("type") != "null"]
        return _resolve({**some[0], **rest}) if len(some) == 1 else node
    return node


def _member(node: Node, segment: Step) -> Node | None:
    reference = node.get("discriminator", {}).get("mapping", {}).get(segment)
    return _resolve({"$ref": reference}) if reference else None


def _step(node: Node, segment: Step) -> Node:
    if isinstance(segment, int):
        return _resolve(node.get("items", {}))
    if segment in node.get("properties", {}):
        return _resolve(node["properties"][segment])
    of_any_name = node.get("additionalProperties")  # `false` where only known names may stand
    return _resolve(of_any_name) if isinstance(of_any_name, dict) else {}
