"""
The ways in which a piece of Python is made wrong: each operator returns what a node may be replaced by.

Nothing is changed that a test cannot or need not notice: annotations, f-strings and other texts that people read,
`repr`, what is logged, and arguments that only tune.
"""

from __future__ import annotations

import ast
import copy
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

OPPOSITE: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
    ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE, ast.LtE: ast.Gt,
}  # fmt: skip
BOUNDARY: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
}  # fmt: skip
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
}  # fmt: skip
TUNING = {"indent", "maxsize", "stacklevel", "timeout", "timeout_s"}
LOGGING = {"log", "logger", "logging", "tracer", "metrics", "warnings"}
COMMUTATIVE = {"cast", "isinstance", "issubclass", "max", "min", "gcd", "isclose"}
TEXTS = {"message", "text", "hint", "remedy", "title", "heading", "sentence", "description"}
TEXT_NODES = (ast.JoinedStr, ast.List, ast.Tuple, ast.Dict)
EMPTY = {
    **dict.fromkeys(("list", "Sequence", "Iterable", "Iterator"), "[]"),
    **dict.fromkeys(("dict", "Mapping"), "{}"),
    "tuple": "()",
    "set": "set()",
    "frozenset": "frozenset()",
    "str": "''",
    "bytes": "b''",
    "int": "0",
    "float": "0.0",
}


def variants(unit: ast.AST, *, condition: bool, returns: str) -> list[tuple[str, str]]:
    """
    Return all faults of a statement or of the expression in a statement's head.

    Args:
        unit: it.
        condition: whether it decides an `if` or a `while`.
        returns: the annotation of what the function returns.

    Returns:
        Pairs of an operator's name and the faulty text.
    """
    found = [] if not condition else [("negated", f"not ({ast.unparse(unit)})")]
    found += [("dropped", "pass")] if _droppable(unit) else []
    if isinstance(unit, ast.Return) and unit.value is not None:
        found.append(("returned", f"return {EMPTY.get(returns.partition('[')[0], 'None')}"))
    for node in _nodes(unit):
        for operator, replacement in _replacements(node):
            found.append((operator, ast.unparse(_replaced(unit, node, replacement))))
    return [(operator, text) for operator, text in found if text != ast.unparse(unit)]


def is_text(unit: ast.AST) -> bool:
    """Return whether a statement only makes or logs a text for people."""
    match unit:
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            return name in TEXTS
        case ast.Expr(value=ast.Call(func=function)):
            return not LOGGING.isdisjoint(name.strip("_").lower() for name in ast.unparse(function).split("."))
        case _:
            return isinstance(unit, ast.Expr) and isinstance(unit.value, ast.Constant)


def _droppable(unit: ast.AST) -> bool:
    match unit:
        case ast.Expr(value=ast.Call() | ast.Await()) | ast.AugAssign() | ast.Delete() | ast.Raise():
            return True
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            return True
        case _:
            return False


def _nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and what lies in it, except what people read, types, and what only tunes."""
    yield node
    for name, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            tuning = isinstance(child, ast.keyword) and child.arg in TUNING
            skipped = isinstance(child, ast.JoinedStr) or name == "annotation" or tuning
            if isinstance(child, ast.AST) and not skipped:
                yield from _nodes(child)


def _replacements(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:  # noqa: C901  # a table
    match node:
        case ast.Compare(left, [operator], others):
            for name, table in (("comparison", OPPOSITE), ("boundary", BOUNDARY)):
                if (other := table.get(type(operator))) is not None:
                    yield name, ast.Compare(left, [other()], others)
        case ast.BinOp(left, operator, right) if type(operator) in ARITHMETIC and not (
            _is_text(left) or _is_text(right)
        ):
            yield "arithmetic", ast.BinOp(left, ARITHMETIC[type(operator)](), right)
        case ast.Constant(value=bool(value)):
            yield "constant", ast.Constant(not value)
        case ast.Constant(value=int(value) | float(value)):
            yield "constant", ast.Constant(value + 1)
        case ast.BoolOp(operator, values):
            yield "negated", ast.BoolOp(ast.And() if isinstance(operator, ast.Or) else ast.Or(), values)
        case ast.IfExp(test, body, orelse):
            yield "negated", ast.IfExp(test, orelse, body)
        case ast.UnaryOp(ast.Not(), operand):
            yield "negated", operand
        case ast.comprehension(target, source, [test, *others], is_async):
            negated = ast.UnaryOp(ast.Not(), test)
            yield "negated", ast.comprehension(target, source, [negated, *others], is_async)
        case ast.Call(function, [first, second, *rest], keywords) if not _commutes(function, first, second):
            yield "arguments", ast.Call(function, [second, first, *rest], keywords)
        case _:
            return


def _commutes(function: ast.expr, first: ast.expr, second: ast.expr) -> bool:
    starred = isinstance(first, ast.Starred) or isinstance(second, ast.Starred)
    return starred or ast.unparse(function).rpartition(".")[2] in COMMUTATIVE


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, TEXT_NODES) or (isinstance(node, ast.Constant) and isinstance(node.value, str | bytes))


def _replaced(unit: ast.AST, node: ast.AST, replacement: ast.AST) -> ast.AST:
    memo = {id(node): copy.deepcopy(replacement)}
    return copy.deepcopy(unit, memo)
