"""`docs/published.csv` says what presets and template have: what stands there is read, and looked up where it says."""

from __future__ import annotations

import csv
import json
import re
from fnmatch import fnmatchcase
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from tests.samples.templates import ROOT, load_template

from stepbench.planning import parse_plan
from stepbench.planning.presets import find_plan

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = ROOT / "docs" / "published.md"
PRESETS = sorted(path.stem for path in (ROOT / "events" / "plans").glob("paper-*.json"))
PARAMETERS = load_template("template.yaml")["Parameters"]
TABLE = PAGE.with_suffix(".csv")
QUOTED = re.compile(r"`([^`]+)`")


class Fact(NamedTuple):
    """One row: source, presets that it is about, what was published, what is ours, where that is, why it differs."""

    source: str
    presets: str
    parameter: str
    published: str
    ours: str
    where: str
    why: str

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


def tables(head: list[str]) -> Iterator[list[str]]:
    """Yield the rows of all tables with this head."""
    inside = False
    for line in PAGE.read_text("utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")] if line.startswith("|") else []
        inside = cells == head or (inside and bool(cells))
        if inside and cells != head and not set("".join(cells)) <= set("-"):
            assert len(cells) == len(head), line
            yield cells


def facts() -> list[Fact]:
    """Return the rows of the table of parameters."""
    with TABLE.open(encoding="utf-8", newline="") as lines:
        _head, *rows = csv.reader(lines)
    return [Fact(*cells) for cells in rows]


FACTS = facts()


def deployments() -> dict[str, dict[str, str]]:
    """Return what each preset is to be deployed with."""
    rows = [(presets_of(cells[0]), quoted(cells[2]).split()) for cells in tables(["presets", "region", "parameters"])]
    return {name: dict(each.split("=", 1) for each in given) for names, given in rows for name in names}


@cache
def trials_of(preset: str) -> tuple[dict[str, Any], ...]:
    """Return a preset's trials with all defaults."""
    return tuple(trial.model_dump(mode="json") for trial in parse_plan(find_plan(preset)).trials)


def values_at(node: Any, steps: list[str]) -> Iterator[Any]:  # noqa: ANN401 -- JSON
    """Yield what stands at a path, nothing where it leads nowhere."""
    if not steps:
        yield from [] if node is None else [node]
    elif steps[0] == "*":
        for each in node or []:
            yield from values_at(each, steps[1:])
    elif isinstance(node, list) and node:
        yield from values_at(node[int(steps[0])], steps[1:])
    elif isinstance(node, dict) and steps[0] in node:
        yield from values_at(node[steps[0]], steps[1:])


def in_plans(fact: Fact, where: str) -> str:
    """Return all different values at a path of the presets' trials, as they come."""
    chosen, _, path = where.rpartition(": ")
    steps = re.findall(r"[^.\[\]]+", path)
    found = [
        value
        for preset in fact.names
        for trial in trials_of(preset)
        if any(fnmatchcase(each or "", chosen or "*") for each in (trial["name"], trial["target"]["store"]))
        for value in values_at(trial, steps)
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
