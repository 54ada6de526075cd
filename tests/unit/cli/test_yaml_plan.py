"""Plans in YAML: what is the same as in JSON, and what is refused where."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stepbench.cli.yaml_plan import MAX_NODES, read_yaml, to_yaml
from stepbench.errors import PlanError
from stepbench.planning import find_plan, list_plans


@pytest.mark.parametrize("name", list_plans())
def test_a_preset_is_the_same_in_yaml(name: str) -> None:
    """Whoever changes one as YAML begins with the same plan."""
    document = json.loads(find_plan(name))
    assert read_yaml(to_yaml(document)) == document


@pytest.mark.parametrize(
    ("text", "value"),
    [("on", "on"), ("no", "no"), ("1:30", "1:30"), ("2026-01-01", "2026-01-01"), ("007", "007"), ("1_000", "1_000")],
)
def test_what_looks_like_text_is_text(text: str, value: str) -> None:
    """YAML 1.1 made true, false, 90, a date, 7 and 1000 of these: a benchmark of something else."""
    assert read_yaml(f"a: {text}") == {"a": value}
    assert read_yaml(to_yaml({"a": value})) == {"a": value}


@pytest.mark.parametrize(
    ("text", "value"), [("1e3", 1000.0), ("-2.5", -2.5), ("20", 20), ("true", True), ("~", None), ("", None)]
)
def test_numbers_and_the_three_words_are_json_s(text: str, value: object) -> None:
    """`1e3` is text in YAML 1.1, and a rate that a plan may state in JSON."""
    assert read_yaml(f"a: {text}") == {"a": value}
    assert read_yaml(to_yaml({"a": value})) == {"a": value}


def test_phases_may_be_written_once() -> None:
    """An anchor is what a YAML file has over a JSON one."""
    assert read_yaml("a: &load [{rate: 1}]\nb: *load\nc: {<<: {x: 1}, y: 2}") == {
        "a": [{"rate": 1}],
        "b": [{"rate": 1}],
        "c": {"x": 1, "y": 2},
    }


def bomb() -> str:
    """Return a few lines that stand for a billion values."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("a: 1\nb: 2\na: 3", "line 3, column 1: is given twice in one object", id="a name twice"),
        pytest.param("a: [1, 2", "line 1, column 9: is not YAML: expected ',' or ']'", id="cut off"),
        pytest.param("a: 1\n\tb: 2", "line 2, column 1: is not YAML", id="a tab"),
        pytest.param("1: x", 'line 1, column 1: is no name (got "1")', id="a number as a name"),
        pytest.param("a: !!python/name:os.system x", "line 1, column 4: is not YAML: could not determine", id="a tag"),
        pytest.param("a: &a [*a]", "line 1, column 4: contains itself", id="a loop"),
        pytest.param(bomb(), f"holds more than {MAX_NODES:,} values", id="aliases of aliases"),
        pytest.param("a: 1\n---\nb: 1", "is not YAML: but found another document", id="two plans in one text"),
        pytest.param("a: \x01", "is not YAML", id="a control character"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(text: str, said: str) -> None:
    """As in JSON, an author finds it by line and column."""
    with pytest.raises(PlanError) as caught:
        read_yaml(text)
    assert said in str(caught.value)


def test_an_empty_text_holds_nothing() -> None:
    """Comments alone are no plan, which is said by who reads the plan."""
    nothing: Any = read_yaml("# nothing\n")
    assert nothing is None
