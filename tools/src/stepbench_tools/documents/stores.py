"""Tables of the stores: what is measured of each, what a plan may say of it, what its trigger is able to do."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

from pydantic_core import to_jsonable_python

from stepbench.contracts.target import ALL_KINDS, StoreTarget, target_models
from stepbench.costs.prices import DEFAULT_REGION
from stepbench.experiments.trigger.catalogue import feature_rows, store_catalogue
from stepbench_tools.local.stores.servers import REFERENCE, SERVERS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic.fields import FieldInfo

ROOM = "/layers/core/src/stepbench/drivers/{}/README.md"
"""The page of a store's driver, from the checkout's root."""


def list_stores() -> Iterator[str]:
    """Yield a row for each store, with a link to its driver's page; the reference store is nobody's choice."""
    yield "| store | on AWS | on one machine | trigger | operations | dataflow |"
    yield "|---|---|---|---|---|---|"
    for store, model in target_models().items():
        if store == REFERENCE:
            continue
        cells = (
            *(f"[{model.title}]({ROOM.format(store)})", model.on_aws or "a server of yours", _here(store, model)),
            *(model.mechanism or "none", _operations(model), "yes" if model.holds_blobs else "none"),
        )
        yield f"| {' | '.join(cells)} |"


def _here(store: str, model: type[StoreTarget]) -> str:
    if store in SERVERS:
        return SERVERS[store].source
    if not model.needs_endpoint:
        return "emulated"
    return "a server of yours" if model.default_port else "none"


def _operations(model: type[StoreTarget]) -> str:
    left_out = [f"{kind.name.lower()}s" for kind in sorted(ALL_KINDS - model.operations)]
    if not model.operations:
        return "none"
    return f"all but {', '.join(left_out)}" if left_out else "all"


def list_fields() -> Iterator[str]:
    """Yield a row for each field that a store's target has of its own."""
    yield "| store | field | default | meaning |"
    yield "|---|---|---|---|"
    for store, model in target_models().items():
        own = [name for name in model.model_fields if name not in {*StoreTarget.model_fields, "store"}]
        for name in own:
            field = model.model_fields[name]
            yield f"| `{store}` | `{name}` | {_default(field)} | {_choices(field)}{field.description} |"
        if not own:
            yield f"| `{store}` | | | |"


def _default(field: FieldInfo) -> str:
    value = field.get_default(call_default_factory=True)
    return "" if value in (None, "") else f"`{json.dumps(to_jsonable_python(value, exclude_none=True))}`"


def _choices(field: FieldInfo) -> str:
    """Return the words that a field takes, where they are few."""
    annotation: Any = field.annotation
    return f"{', '.join(f'`{each}`' for each in get_args(annotation))}. " if get_origin(annotation) is Literal else ""


def describe_features() -> Iterator[str]:
    """Yield a table for each store with a trigger, and a line for each without; the reference store is nobody's."""
    for info in store_catalogue(DEFAULT_REGION):
        if info.store == REFERENCE:
            continue
        rows = tuple(feature_rows(info))
        yield f"### `{info.store}`: {info.features.trigger or 'no trigger'}"
        yield ""
        yield f"Keeps {info.features.data_model}."
        yield from ("", "| | | source |", "|---|---|---|")
        yield from (f"| {name} | {text} | {_linked(source)} |" for name, text, source in rows)
        yield ""


def _linked(source: str) -> str:
    """Return a link, by the name of its page."""
    if not source.startswith("https://"):
        return source
    host, *_, page = source.removeprefix("https://").rstrip("/").split("/")
    return f"[{host}: {page.removesuffix('.html')}]({source})"
