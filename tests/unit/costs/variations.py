"""Every preset, and each of its trials with every choice of every field, one at a time."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args, get_origin

from pydantic import BaseModel, TypeAdapter, ValidationError

from stepbench.contracts.plan import AnyTrial
from stepbench.planning import expanded, find_plan, parse_plan
from stepbench.planning.presets import list_plans

if TYPE_CHECKING:
    from collections.abc import Iterator

_TRIAL: TypeAdapter[AnyTrial] = TypeAdapter(AnyTrial)
_NOT_VARIED = frozenset(
    {"experiment", "name", "probe", "seed", "repeats", "matrix", "published", "files", "input", "windows"}
)
CAPACITIES: tuple[dict[str, Any], ...] = ({"mode": "on_demand"}, {"mode": "provisioned", "write_units": 100})
WHOLE: dict[str, tuple[Any, ...]] = {
    "capacity": CAPACITIES,
    "sources": (["s3"], ["efs"], ["efs", "s3"]),
    "platforms": (["lambda"], ["fargate"], ["lambda", "fargate"]),
    "keys": tuple({"distribution": each} for each in ("uniform", "zipfian", "latest", "hot")),
    "arrivals": ("constant", "poisson"),
    "every_s": (0, 30),
    "matching_share": (1, 0.1),
}
"""Fields whose choices are whole values."""


class Variation(NamedTuple):
    """A trial with one field changed: "as it is" where none is."""

    preset: str
    changed: str
    trial: AnyTrial


def variations() -> Iterator[Variation]:
    """Yield each trial of each preset, repeats aside, as it is; and one on each store with each field changed."""
    for preset in list_plans():
        seen: list[dict[str, Any]] = []
        varied: set[tuple[str, str]] = set()
        for one in expanded(parse_plan(find_plan(preset))):
            document = one.plan.model_dump(mode="json")
            same = {**document, "seed": 0, "workload": document.get("workload") and {**document["workload"], "seed": 0}}
            if one.repeat or same in seen:
                continue
            seen.append(same)
            yield Variation(preset, f"{one.name}: as it is", one.plan)
            if (one.plan.experiment, one.plan.target.store) in varied:
                continue
            varied.add((one.plan.experiment, one.plan.target.store))
            for path, value in _choices(one.plan, ()):
                if (changed := _changed(document, path, value)) is not None:
                    yield Variation(preset, f"{one.name}: {'.'.join(map(str, path))} = {value}", changed)


def _choices(model: BaseModel, at: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """Yield the path and another value of each field below a model."""
    for name, info in type(model).model_fields.items():
        if name in _NOT_VARIED:
            continue
        value, path = getattr(model, name), (*at, name)
        others = WHOLE.get(name) or tuple(_others(info.annotation, value))
        yield from ((path, other) for other in others if other != value)
        if isinstance(value, BaseModel):
            yield from _choices(value, path)
        elif isinstance(value, tuple):
            for place, each in enumerate(value):
                if isinstance(each, BaseModel):
                    yield from _choices(each, (*path, place))


def _others(annotation: Any, value: Any) -> Iterator[Any]:  # noqa: ANN401 -- any annotation
    if isinstance(value, bool):
        yield not value
    elif get_origin(annotation) is Literal:
        yield from get_args(annotation)
    elif isinstance(value, int | float):
        yield from (value * 2, type(value)(value / 2))
    elif value is None:
        yield from (each for arg in get_args(annotation) if get_origin(arg) is Literal for each in get_args(arg))


def _changed(document: dict[str, Any], path: tuple[str | int, ...], value: Any) -> AnyTrial | None:  # noqa: ANN401
    """Return the trial with one value changed; None where that is no trial."""
    changed = copy.deepcopy(document)
    place: Any = changed
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    try:
        return _TRIAL.validate_python(changed)
    except ValidationError:
        return None
