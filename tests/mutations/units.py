"""
Places for a fault: statements of functions, heads of compound statements, clauses of a state machine's states.

A place is named by the function's qualified name and its own text, wherever the file lies and however it is laid out.
"""

from __future__ import annotations

import ast
import functools
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from tests.mutations.operators import is_text, variants

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PACKAGE, TOOLS = "layers/core/src/stepbench", "tools/src/stepbench_tools"
SOURCES = (f"{PACKAGE}/**/*.py", f"{TOOLS}/**/*.py", "functions/*.py", "statemachines/*.asl.json")
NOT_PRODUCT = re.compile(r"_pb2\.py$|_pb2_grpc\.py$")
STATE = re.compile(r'"(\w+)":\s*\{\s*"Type"')
CLAUSE = re.compile(r'"(?:Retry|Catch|Choices)":\s*')
COUNTS = {"MaxAttempts", "MaxConcurrency", "NumericEquals", "NumericGreaterThan", "NumericLessThan"}


@dataclass(frozen=True)
class Unit:
    """
    One place.

    Attributes:
        function: the function's qualified name, or the state's name.
        text: the statement, head or clause, normalised.
        start, end: its place in the file, in bytes.
        lines: first and last line, from 1.
        variants: what makes its faults, pairs of an operator and the faulty text.
    """

    function: str
    text: str
    start: int
    end: int
    lines: tuple[int, int]
    variants: Callable[[], list[tuple[str, str]]]


def units_of(root: Path) -> Iterator[tuple[str, Path, Unit]]:
    """Yield all places of a checkout, each with its room and file."""
    for pattern in SOURCES:
        for path in sorted(root.glob(pattern)):
            name = str(path.relative_to(root))
            if not NOT_PRODUCT.search(name):
                source = path.read_bytes()
                found = python_units(source) if path.suffix == ".py" else definition_units(source)
                yield from ((room_of(name), path, unit) for unit in found)


def room_of(name: str) -> str:
    """Return the first folder or module of a package that a file belongs to, or the folder beside the packages."""
    inside = name.removeprefix(f"{PACKAGE}/").removeprefix(f"{TOOLS}/")
    return (inside if inside != name else name).partition("/")[0].removesuffix(".py")


def python_units(source: bytes) -> Iterator[Unit]:
    """Yield the places of a module, those of functions within functions under their own names."""
    starts = [0, *accumulate(len(line) for line in source.splitlines(keepends=True))]
    for function, returns, node, condition in _statements(ast.parse(source).body, "", None):
        if not is_text(node):
            assert node.end_lineno is not None  # parsed, not made
            assert node.end_col_offset is not None
            yield Unit(
                function,
                ast.unparse(node),
                starts[node.lineno - 1] + node.col_offset,
                starts[node.end_lineno - 1] + node.end_col_offset,
                (node.lineno, node.end_lineno),
                functools.partial(variants, node, condition=condition, returns=returns),
            )


def _statements(
    body: list[Any], name: str, returns: str | None
) -> Iterator[tuple[str, str, ast.stmt | ast.expr, bool]]:
    """Yield function, its return type, node, and whether it is a condition; `returns` is None outside of functions."""
    for node in body:
        match node:
            case ast.ClassDef() if "Protocol" not in {ast.unparse(base).partition("[")[0] for base in node.bases}:
                yield from _statements(node.body, f"{name}{node.name}.", None)
            case ast.FunctionDef() | ast.AsyncFunctionDef() if not _unread(node):
                annotation = ast.unparse(node.returns) if node.returns else ""
                yield from _statements(node.body, f"{name}{node.name}.", annotation)
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Import() | ast.ImportFrom():
                continue
            case _ if returns is not None:
                yield from _parts(node, name, returns)
            case _:
                continue


def _parts(node: Any, name: str, returns: str) -> Iterator[tuple[str, str, ast.stmt | ast.expr, bool]]:  # noqa: ANN401
    """Yield a simple statement, or a compound one's head and its parts."""
    if isinstance(node, ast.stmt) and not hasattr(node, "body") and not isinstance(node, ast.Match):
        yield name.removesuffix("."), returns, node, False
        return
    for field, value in ast.iter_fields(node):
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, ast.expr) and field in {"test", "iter", "subject", "guard", "context_expr"}:
                yield name.removesuffix("."), returns, each, field in {"test", "guard"}
            elif isinstance(each, ast.stmt):
                yield from _statements([each], name, returns)
            elif isinstance(each, ast.ExceptHandler | ast.match_case | ast.withitem):
                yield from _parts(each, name, returns)


def _unread(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    decorators = {ast.unparse(each).rpartition(".")[2] for each in function.decorator_list}
    return function.name in {"__repr__", "__str__"} or not decorators.isdisjoint({"overload", "abstractmethod"})


def definition_units(source: bytes) -> Iterator[Unit]:
    """Yield the clauses of a state machine: what a state retries, catches, and chooses by."""
    text = source.decode()
    names = [(match.start(), match[1]) for match in STATE.finditer(text)]
    for match in CLAUSE.finditer(text):
        value, end = json.JSONDecoder().raw_decode(text, match.end())
        state = [name for start, name in names if start < match.start()][-1]
        start_bytes, end_bytes = (len(text[:each].encode()) for each in (match.end(), end))
        lines = text.count("\n", 0, match.end()) + 1, text.count("\n", 0, end) + 1
        yield Unit(state, json.dumps(value), start_bytes, end_bytes, lines, functools.partial(_clause_variants, value))


def _clause_variants(clauses: list[dict[str, Any]]) -> list[tuple[str, str]]:
    found = [("dropped", clauses[:index] + clauses[index + 1 :]) for index in range(len(clauses)) if len(clauses) > 1]
    for index, clause in enumerate(clauses):
        for key, value in clause.items():
            if isinstance(value, bool) or key in COUNTS:
                operator, changed = ("negated", not value) if isinstance(value, bool) else ("constant", value + 1)
                found.append((operator, [*clauses[:index], {**clause, key: changed}, *clauses[index + 1 :]]))
    return [(operator, json.dumps(value)) for operator, value in found]
