"""A remedy names only what a plan has."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path
from typing import TYPE_CHECKING

import stepbench
from stepbench.contracts.plan import Plan
from stepbench.contracts.result import Accounting

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE = Path(stepbench.__file__).parent
SOURCES = (*sorted(PACKAGE.glob("analysis/**/*.py")), PACKAGE / "report/summary.py")
FIELD = re.compile(
    r"`([^`]+)`|\b([a-z]+(?:[._][a-z][a-z0-9]*)+)\b|\b(?<!a )(?:[Rr]aise|[Ll]ower) (?!the |a )([a-z_.]+)"
)
"""What looks like a field: in back quotes, with an underscore or a dot in it, or what is to be raised or lowered."""


def _names(schema: object) -> Iterator[str]:
    if isinstance(schema, dict):
        yield from schema.get("properties", {})
        for part in schema.values():
            yield from _names(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from _names(part)


def _texts(node: ast.AST) -> Iterator[str]:
    """Yield the texts that are given as a remedy, by name, anywhere below."""
    for each in ast.walk(node):
        named = isinstance(each, ast.keyword) and each.arg == "remedy"
        named |= isinstance(each, ast.Assign) and any("remedy" in ast.unparse(name).lower() for name in each.targets)
        if named:
            parts = (part.value for part in ast.walk(each) if isinstance(part, ast.Constant))
            yield from (part for part in parts if isinstance(part, str))


@functools.cache
def known_names() -> frozenset[str]:
    """Return the names of all fields of a plan and of the accounting."""
    return frozenset((*_names(Plan.model_json_schema()), *Accounting.model_fields))


def unknown_fields(remedy: str) -> set[str]:
    """Return what the remedy calls by a name that neither a plan nor the accounting has."""
    fields = ("".join(groups).strip(".") for groups in FIELD.findall(remedy))
    return {field for field in fields if not set(field.split(".")) <= known_names()}


def test_every_field_in_a_remedy_is_one_of_the_plan() -> None:
    """Whoever follows "raise lead" finds that the plan is refused for it."""
    remedies = {text for source in SOURCES for text in _texts(ast.parse(source.read_text()))}
    assert len(remedies) > 30
    assert {remedy: found for remedy in remedies if (found := unknown_fields(remedy))} == {}


def test_a_field_that_no_plan_has_is_found() -> None:
    """It is what the other test looks for, in each of its forms."""
    assert unknown_fields("Raise lead, or `warmth`; see target.size and flush_s.") == {
        "lead",
        "warmth",
        "target.size",
        "flush_s",
    }
    assert unknown_fields("Lower the rate, or raise target.batch_size; look at `lost`.") == set()
