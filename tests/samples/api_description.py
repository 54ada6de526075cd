"""The API's description as schemathesis reads it, the requests that cover it, and what answers are held against."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import schemathesis
from schemathesis.checks import not_a_server_error
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from schemathesis.generation.case import Case
    from schemathesis.specs.openapi.schemas import OpenApiSchema

CHECKS = (
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
)
_DOCUMENT = json.loads((Path(__file__).parents[2] / "docs/openapi.json").read_text())
OPERATIONS = tuple(f"{method.upper()} {path}" for path, methods in _DOCUMENT["paths"].items() for method in methods)


def described() -> OpenApiSchema:
    """Return the description; its tests draw requests, and do not cover it: see `covering`."""
    schema = schemathesis.openapi.from_dict(_DOCUMENT)
    schema.config.phases.update(phases=["fuzzing"])
    return schema


def covering(operation: str) -> Iterator[Case[Any]]:
    """
    Yield the requests of one operation (`GET /runs`) that cover its description: right ones, and each kind of wrong.

    Where a plan is sent there are more than 2,500: plans with one thing changed. They are made as they are asked for,
    since making them takes seconds.
    """
    schema = described()
    method, _, path = operation.partition(" ")
    found = schema[path][method]
    generation = schema.config.generation_for(operation=found, phase="coverage")
    return schema.iter_coverage_cases(found, generation_modes=list(GenerationMode), generation_config=generation)
