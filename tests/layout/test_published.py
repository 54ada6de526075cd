"""
Published settings, numbers and figures are where `docs/published.*` says.

Each row is read, and looked up in presets, template, pages and the report's own titles.
"""

from __future__ import annotations

import ast
import json
import re
from fnmatch import fnmatchcase
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Any

import pytest
from tests.samples.templates import ROOT, load_template

from stepbench.planning import parse_plan
from stepbench.planning.presets import find_plan
from stepbench_tools.documents.published import (
    NOWHERE,
    Parameter,
    Quotation,
    find,
    published_by,
    read_parameters,
    read_quotations,
    steps_of,
    values_at,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = ROOT / "docs" / "published.md"
PRESETS = sorted(path.stem for path in (ROOT / "events" / "plans").glob("paper-*.json"))
PARAMETERS = load_template("template.yaml")["Parameters"]
QUOTED = re.compile(r"`([^`]+)`")


ITEMS = ["item", "presets", "scored by", "on the page", "what differs"]
SHOWN = {
    "Source 1": [
        *(f"Fig. {number}," for number in range(1, 8)),
        "Table I,",
        "Table II,",
        "Table III,",
        "III-C",
        "O-1 to O-4",
    ],
    "Source 2": [*(f"Section {number}," for number in range(1, 8)), "creation time", "INSERT and SELECT"],
    "Source 3": [
        "Introduction",
        *(f"Fig. {number}," for number in range(1, 9)),
        *(f"4.{number}," for number in range(1, 6)),
    ],
    "Source 4": [*(f"Plot {number}," for number in range(3, 9)), "The download"],
    "Source 5": [
        *(
            f"{name}, {mode}:"
            for name in ("Read", "Insertion", "Overwrite", "Update")
            for mode in ("throughput", "latency")
        ),
        "The record",
    ],
}
"""What each source shows, in the order in which it does: its own numbering, where it has one."""
REPORT = [ROOT / "layers/core/src/stepbench" / room for room in ("report", "experiments")]


class Fact(Parameter):
    """One row of the table of parameters."""

    @property
    def names(self) -> list[str]:
        """Return the presets that it is about."""
        return presets_of(self.presets)

    @property
    def value(self) -> str:
        """Return what is quoted of ours."""
        return quoted(self.ours)


def quoted(cell: str) -> str:
    """Return the first text between backticks, or the whole cell."""
    found = QUOTED.search(cell)
    return found[1] if found else cell


def presets_of(cell: str) -> list[str]:
    """Return the presets that a cell's patterns name; each names some."""
    patterns = QUOTED.findall(cell)
    found = [[name for name in PRESETS if fnmatchcase(name, pattern)] for pattern in patterns]
    assert patterns, f"{cell}: names no preset"
    assert all(found), f"{cell}: one of the patterns matches no preset"
    return sorted(set(chain.from_iterable(found)))


def tables(head: list[str], text: str) -> Iterator[list[str]]:
    """Yield the rows of a text's tables with this head."""
    inside = False
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")] if line.startswith("|") else []
        inside = cells == head or (inside and bool(cells))
        if inside and cells != head and not set("".join(cells)) <= set("-"):
            assert len(cells) == len(head), line
            yield cells


FACTS = [Fact(*row) for row in read_parameters()]
QUOTATIONS = read_quotations()


def deployments() -> dict[str, dict[str, str]]:
    """Return what each preset is to be deployed with."""
    rows = [
        (presets_of(cells[0]), quoted(cells[2]).split())
        for cells in tables(["presets", "region", "parameters"], PAGE.read_text("utf-8"))
    ]
    return {name: dict(each.split("=", 1) for each in given) for names, given in rows for name in names}


@cache
def trials_of(preset: str) -> tuple[dict[str, Any], ...]:
    """Return a preset's trials with all defaults."""
    return tuple(trial.model_dump(mode="json") for trial in parse_plan(find_plan(preset)).trials)


def in_plans(fact: Fact, where: str) -> str:
    """Return all different values at a path of the presets' trials, as they come."""
    chosen, _, path = where.rpartition(": ")
    found = [
        value
        for preset in fact.names
        for trial in trials_of(preset)
        if any(fnmatchcase(each or "", chosen or "*") for each in (trial["name"], trial["target"]["store"]))
        for value in values_at(trial, steps_of(path))
    ]
    return ", ".join(dict.fromkeys(map(as_text, found)))


def as_text(value: Any) -> str:  # noqa: ANN401 -- JSON
    """Format a value as the page does."""
    if isinstance(value, float):
        return f"{value:g}"
    return value if isinstance(value, str) else json.dumps(value)


def takes(parameter: str, value: str) -> bool:
    """Tell whether CloudFormation takes a parameter's value."""
    body = PARAMETERS[parameter]
    if body["Type"] == "Number":
        return bool(body.get("MinValue", 0) <= float(value) <= body.get("MaxValue", float(value)))
    allowed = [str(each) for each in body.get("AllowedValues", [value])]
    pattern: str = body.get("AllowedPattern", "")
    return value in allowed and re.search(pattern, value) is not None


def is_link(where: str) -> bool:
    """Tell whether the place is a page, of the docs or from the root; it has to be there, with the heading named."""
    found = re.fullmatch(r"\[.+\]\(([^)#]+)(?:#([^)]+))?\)", where)
    if found is None:
        return False
    page = ROOT / found[1].removeprefix("/") if found[1].startswith("/") else PAGE.parent / found[1]
    headings = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}
    assert found[2] is None or found[2] in anchors, where
    return True


@pytest.mark.parametrize("fact", FACTS, ids=[f"{fact.presets} {fact.parameter}" for fact in FACTS])
def test_ours_is_what_the_preset_or_the_template_has(fact: Fact) -> None:
    """A preset that is changed, or deployed otherwise, would leave the page behind."""
    if is_link(fact.where):
        return
    where = quoted(fact.where)
    nested = re.fullmatch(r"([\w-]+\.yaml): (\w+)", where)
    if nested:
        assert load_template(f"stacks/{nested[1]}")["Parameters"][nested[2]]["Default"] == fact.value
    elif where in PARAMETERS:
        default = str(PARAMETERS[where]["Default"])
        assert {deployments()[name].get(where, default) for name in fact.names} == {fact.value}
    else:
        assert in_plans(fact, where) == fact.value


@pytest.mark.parametrize("fact", FACTS, ids=[f"{fact.presets} {fact.parameter}" for fact in FACTS])
def test_what_differs_says_why(fact: Fact) -> None:
    """A difference without a reason is a mistake."""
    assert fact.why or fact.ours == "the same" or quoted(fact.published) == fact.value or is_link(fact.where)


def test_every_preset_is_on_the_page() -> None:
    """With what it is to be deployed with, and with parameters of its source."""
    assert sorted(deployments()) == PRESETS
    assert sorted(set(chain.from_iterable(fact.names for fact in FACTS))) == PRESETS


def test_the_template_takes_what_is_to_be_deployed() -> None:
    """Whoever copies a row of the first table must not be refused."""
    given = [pair for parameters in deployments().values() for pair in parameters.items()]
    assert len(given) > 1
    assert [pair for pair in given if not takes(*pair)] == []


def items(source: str) -> list[list[str]]:
    """Return the rows of a source's table of experiments, tables and figures."""
    section = re.split(r"^## ", PAGE.read_text("utf-8"), flags=re.MULTILINE)
    [own] = [text for text in section if text.startswith(f"{source}: ")]
    return [*tables(ITEMS, own)]


ITEM_ROWS = [(source, row) for source in SHOWN for row in items(source)]


@cache
def titles() -> frozenset[str]:
    """Return all texts of the modules that make the report, without what they put in."""
    modules = chain.from_iterable(room.rglob("*.py") for room in REPORT)
    nodes = chain.from_iterable(ast.walk(ast.parse(path.read_text("utf-8"))) for path in modules)
    return frozenset(
        node.value.strip() for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


@pytest.mark.parametrize("row", QUOTATIONS, ids=[f"{row.source} {row.words}" for row in QUOTATIONS])
def test_a_published_number_is_where_its_row_says(row: Quotation) -> None:
    """As printed, of that kind, in that preset, trial and metric; or it is none of ours, with the reason."""
    findings = find(row, FACTS)
    assert findings
    assert [each.place for each in findings if not each.found] == []
    assert row.where == NOWHERE or not row.where.startswith("[") or is_link(row.where)


def test_no_number_is_quoted_twice() -> None:
    """A row that stands twice would be looked after once."""
    words = [(row.source, row.words) for row in QUOTATIONS]
    assert sorted(set(words)) == sorted(words)


@pytest.mark.parametrize("source", SHOWN)
def test_each_thing_that_a_source_shows_is_in_its_table(source: str) -> None:
    """A figure that nobody lists is one that nobody misses."""
    listed = [row[0] for row in items(source)]
    assert [name for name in SHOWN[source] if not any(name in f"{item}," for item in listed)] == []


@pytest.mark.parametrize(("source", "row"), ITEM_ROWS, ids=[f"{source} {row[0]}" for source, row in ITEM_ROWS])
def test_an_item_is_scored_and_shown_where_the_table_says(source: str, row: list[str]) -> None:
    """Preset, metric, title and page are there; what is not scored says why."""
    item, presets, scored, shown, differs = row
    metrics, names = QUOTED.findall(scored), presets_of(presets) if presets != NOWHERE else []
    there = {entry.metric for name in names for entry in published_by(name)}
    assert sorted(set(metrics) - there) == [], f"{source}, {item}: not in `published` of {names}"
    assert metrics or differs, f"{source}, {item}: neither scored, nor is the reason given"
    quotes, links = re.findall(r'"([^"]+)"', shown), re.findall(r"\[[^]]+\]\([^)]+\)", shown)
    assert quotes or links
    assert [title for title in quotes if title not in titles()] == []
    assert all(map(is_link, links))
