"""The plan's JSON Schema, and the parts of it that pydantic's errors are about."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from stepbench.contracts.plan import Plan

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

Node = dict[str, Any]

_DEEPEST = 6
ROOT = "plan"
"""The path of a problem with the plan as a whole."""


def plan_schema() -> Node:
    """Return a plan's JSON Schema (draft 2020-12), as in `docs/plan.schema.json`; without rules that span fields."""
    schema = Plan.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "Stepbench plan"}


class Location(NamedTuple):
    """The location of an error: its path for humans, the steps in the user's own document, and the schema there."""

    path: str
    steps: tuple[str | int, ...]
    node: Node
    parent: Node


def locate(location: Sequence[str | int]) -> Location:
    """
    Return the location of a pydantic error.

    Pydantic names the chosen member of a union in its locations (`target`, `dynamodb`, `batch_size`); those segments
    are in no user's document, so they are dropped.
    """
    node, parent = _resolve(plan_schema_cached()), {}
    steps: list[str | int] = []
    for segment in location:
        chosen = _member(node, segment)
        if chosen is not None:
            node = chosen
            continue
        steps.append(segment)
        node, parent = _step(node, segment), node
    return Location(path_text(steps), tuple(steps), node, parent)


def path_text(steps: Iterable[str | int]) -> str:
    """Return `trials[0].phases[1].rate_per_s`."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)
    return text.removeprefix(".") or ROOT


def fields(node: Node) -> list[str]:
    """Return the names that an object may have, in the schema's order."""
    return list(node.get("properties", {}))


def place_of(name: str, around: Location) -> str:
    """Return the path at which a field of this name may stand: the nearest below an object, else the plan's own."""
    level = [(around.steps[:-1], around.parent)]
    while level:
        level = [(steps, node) for place in level for steps, node in _children(*place) if len(steps) <= _DEEPEST]
        for steps, node in level:
            if name in fields(node):
                return path_text((*steps, name))
    return name if name in fields(_resolve(plan_schema_cached())) else ""


def _children(steps: tuple[str | int, ...], parent: Node) -> Iterator[tuple[tuple[str | int, ...], Node]]:
    """Yield the objects that stand in an object, of a union each member, of a list the first."""
    for name in fields(parent):
        node, below = _step(parent, name), (*steps, name)
        if "items" in node:
            node, below = _step(node, 0), (*below, 0)
        yield below, node
        yield from ((below, member) for each in _members(node) if (member := _member(node, each)))


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


def _members(node: Node) -> list[str]:
    return list(node.get("discriminator", {}).get("mapping", {}))


def _member(node: Node, segment: str | int) -> Node | None:
    reference = node.get("discriminator", {}).get("mapping", {}).get(segment)
    return _resolve({"$ref": reference}) if reference else None


def _step(node: Node, segment: str | int) -> Node:
    if isinstance(segment, int):
        return _resolve(node.get("items", {}))
    if segment in node.get("properties", {}):
        return _resolve(node["properties"][segment])
    of_any_name = node.get("additionalProperties")  # `false` where only known names may stand
    return _resolve(of_any_name) if isinstance(of_any_name, dict) else {}
