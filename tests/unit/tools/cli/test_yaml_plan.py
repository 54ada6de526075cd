"""Plans in YAML: what is the same as in JSON, and what is refused where."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stepbench.errors import PlanError
from stepbench.planning import find_plan, list_plans, read_json
from stepbench_tools.cli.yaml_plan import MAX_NODES, read_yaml, to_yaml


@pytest.mark.parametrize("name", list_plans())
def test_a_preset_is_the_same_in_yaml(name: str) -> None:
    """Whoever changes one as YAML begins with the same plan."""
    document = json.loads(find_plan(name))
    assert read_yaml(to_yaml(document)) == document


@pytest.mark.parametrize(
    "text", ["on", "no", "1:30", "2026-01-01", "1_000", "0b11", "0o8", "+", ".", "1e", "0x", "..5"]
)
def test_what_looks_like_text_is_text(text: str) -> None:
    """YAML 1.1 made true, false, 90, a date, 1000 and 3 of the first: a benchmark of something else."""
    assert read_yaml(f"a: {text}") == {"a": text}
    assert read_yaml(to_yaml({"a": text})) == {"a": text}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(("1e3", 1000.0), ("-2.5", -2.5), ("20", 20), ("true", True), ("~", None), ("", None)),
        *((".5", 0.5), ("-.5", -0.5), ("+.5e1", 5.0), ("1.", 1.0), ("+5", 5), ("0o10", 8), ("0x1F", 31), ("007", 7)),
    ],
)
def test_numbers_and_the_three_words_are_those_of_the_core_schema(text: str, value: object) -> None:
    """YAML 1.2.2, 10.3.2. `1e3` is text in YAML 1.1, and a rate that a plan may state in JSON."""
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
        pytest.param("1: x", "line 1, column 1: is no name (got (hidden))", id="a number as a name"),
        pytest.param("a: !!python/name:os.system x", "line 1, column 4: is not YAML: a tag", id="a tag"),
        pytest.param("a: &a [*a]", "line 1, column 4: contains itself", id="a loop"),
        pytest.param(bomb(), f"holds more than {MAX_NODES:,} values", id="aliases of aliases"),
        pytest.param("a: 1\n---\nb: 1", "is not YAML: but found another document", id="two plans in one text"),
        pytest.param("a: \x01", "is not YAML", id="a control character"),
        pytest.param("a: !!int x", "line 1, column 4: is not YAML: no int (got (hidden))", id="another tag"),
        pytest.param("<<: 5", "line 1, column 1: merges what is no object", id="a merge of a number"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(text: str, said: str) -> None:
    """As in JSON, an author finds it by line and column."""
    with pytest.raises(PlanError) as caught:
        read_yaml(text)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "a: *hunter2", "a: !hunter2", "a: !!int hunter2", "a: 'hunter2", "a: [hunter2", "a: @hunter2",
        "? [hunter2]\n: 1", "a: !hunter2!x y", "%TAG !hunter2! x\n%TAG !hunter2! x\n--- a", "a: hunter2: b", "hunter2",
    ],
)  # fmt: skip
def test_what_stands_where_a_text_is_no_plan_is_not_shown(text: str) -> None:
    """A password in YAML needs no quotes, so that one which begins with * or ! is a mistake of its author's."""
    with pytest.raises(PlanError) as caught:
        read_json(read_yaml(text))
    assert "hunter2" not in str(caught.value)


def test_what_is_no_finite_number_is_refused_at_its_path() -> None:
    """`.inf` and 5,000 digits are numbers in YAML; the latter ended in a traceback."""
    for text in (".inf", "-.INF", ".nan"):
        with pytest.raises(PlanError, match=r"^a: is not a finite number"):
            read_json(read_yaml(f"a: {text}"))
    for text in ("1" * 5_000, "0x" + "f" * 5_000, "-" + "1" * 5_000):
        with pytest.raises(PlanError, match=r"^a\[0\]: has 5,00\d digits .* Write a smaller number"):
            read_json(read_yaml(f"a: [{text}]"))


def test_an_explicit_tag_of_the_core_schema_is_taken() -> None:
    """They say what quotes and digits say, too."""
    assert read_yaml("{a: !!str 5, b: !!int '5', c: !!float 5, d: '5'}") == {"a": "5", "b": 5, "c": 5.0, "d": "5"}


def test_an_empty_text_holds_nothing() -> None:
    """Comments alone are no plan, which is said by who reads the plan."""
    nothing: Any = read_yaml("# nothing\n")
    assert nothing is None
