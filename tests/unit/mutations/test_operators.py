from __future__ import annotations

import ast

import pytest
from tests.mutations.operators import is_text, variants


@pytest.mark.parametrize(
    ("statement", "fault"),
    [
        ("x = a == b", ("comparison", "x = a != b")),
        ("x = a < b", ("comparison", "x = a >= b")),
        ("x = a < b", ("boundary", "x = a <= b")),
        ("x = a + b", ("arithmetic", "x = a - b")),
        ("x = a[1]", ("constant", "x = a[2]")),
        ("x = f(deep=True)", ("constant", "x = f(deep=False)")),
        ("x = a and b", ("negated", "x = a or b")),
        ("x = a if b else c", ("negated", "x = c if b else a")),
        ("x = [a for a in b if a.ok]", ("negated", "x = [a for a in b if not a.ok]")),
        ("x = f(a, b, c)", ("arguments", "x = f(b, a, c)")),
        ("await f(a)", ("dropped", "pass")),
        ("self.x = a", ("dropped", "pass")),
        ("return a", ("returned", "return None")),
    ],
)
def test_each_operator_makes_its_fault(statement: str, fault: tuple[str, str]) -> None:
    """A fault of the wrong kind would measure something else than the table says."""
    assert fault in variants(ast.parse(statement).body[0], condition=False, returns="Window")


def test_a_condition_is_negated_as_a_whole() -> None:
    """Both branches of every `if` should be looked at."""
    (test,) = (node.value for node in ast.parse("a.ready").body if isinstance(node, ast.Expr))
    assert variants(test, condition=True, returns="") == [("negated", "not (a.ready)")]


@pytest.mark.parametrize(
    ("returns", "empty"), [("list[int]", "[]"), ("Mapping[str, int]", "{}"), ("str", "''"), ("int", "0")]
)
def test_what_is_returned_is_empty_of_its_type(returns: str, empty: str) -> None:
    """A wrong type is found by anything; an empty answer only by who reads it."""
    assert ("returned", f"return {empty}") in variants(ast.parse("return a").body[0], condition=False, returns=returns)


@pytest.mark.parametrize(
    "statement", ["x = f'{a + 1}'", "x = max(a, b)", "x = 'a' + b", "x: tuple[1, 2] = a", "x = f(timeout_s=3)"]
)
def test_what_no_test_could_notice_is_left(statement: str) -> None:
    """Each such fault would be a survivor that somebody has to explain."""
    assert variants(ast.parse(statement).body[0], condition=False, returns="") == []


@pytest.mark.parametrize("statement", ["'text'", "message = 'a' + b", "logger.info(a, b)", "self._log.info(a, b)"])
def test_texts_for_people_are_no_places(statement: str) -> None:
    """Wording is judged by people, not by faults."""
    assert is_text(ast.parse(statement).body[0])
