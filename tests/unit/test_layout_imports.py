"""Imports point one way (DESIGN 6), and what is pure stays so."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE = Path(__file__).parents[2] / "layers/core/src/stepbench"
RANKS = (
    {"__init__", "clock", "contracts", "errors", "observability", "settings"},
    {"clock_offset", "costs", "drivers", "load", "planning", "records", "report", "stats", "wire"},
    {"analysis", "calibration", "stages"},
    {"api", "cli", "local", "testing"},
)
"""Each may import its own rank and those before it."""
AWS = {"boto3", "botocore", "mypy_boto3_s3", "mypy_boto3_dynamodb", "aws_lambda_powertools"}
KNOWS_NO_AWS = ("stats", "report", "contracts", "costs", "planning", "calibration")
PURE_OF_IO = ("stats", "contracts", "calibration")
"""No clock, no randomness of their own, no files, no network."""
EFFECTS = {"time", "random", "socket", "subprocess", "os", "asyncio", "threading"}


def _modules() -> Iterator[tuple[str, str, ast.Module]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        yield parts[0], "/".join(parts), ast.parse(path.read_text())


def _imports(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from ([f"{node.module}.{alias.name}" for alias in node.names])


def _rank(package: str) -> int:
    return next(index for index, names in enumerate(RANKS) if package in names)


def test_every_package_has_a_rank() -> None:
    """A new package takes its place in the order before it is imported anywhere."""
    assert {package for package, _, _ in _modules()} <= set().union(*RANKS)


def test_imports_point_one_way() -> None:
    """So that a stage can be read without the API, and a statistic without a stage. Imports for types count, too."""
    wrong = {
        (module, imported)
        for package, module, tree in _modules()
        for imported in _imports(tree)
        if imported.startswith("stepbench.")
        and not imported.endswith(".__version__")
        and _rank(imported.split(".")[1]) > _rank(package)
    }
    assert wrong == set()


@pytest.mark.parametrize("package", KNOWS_NO_AWS)
def test_what_needs_no_aws_knows_none(package: str) -> None:
    """Statistics and report are used offline, and tested without an emulator."""
    found = {
        (module, imported)
        for own, module, tree in _modules()
        for imported in _imports(tree)
        if own == package and imported.split(".")[0] in AWS
    }
    assert found == set()


@pytest.mark.parametrize("package", PURE_OF_IO)
def test_the_pure_core_has_no_effects(package: str) -> None:
    """Clock, randomness and I/O are arguments there."""
    found = {
        (module, imported)
        for own, module, tree in _modules()
        for imported in _imports(tree)
        if own == package and imported.split(".")[0] in EFFECTS
    }
    assert found == set()


def test_nothing_is_called_utils() -> None:
    """STYLE: a name that says nothing collects everything."""
    banned = {"utils", "util", "helpers", "common", "misc"}
    assert [module for _, module, _ in _modules() if module.split("/")[-1] in banned] == []
