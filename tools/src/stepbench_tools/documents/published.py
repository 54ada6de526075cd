"""
Where every published number is: `docs/published.csv` and `docs/published-numbers.csv`, held against the presets.

`python -m stepbench_tools.documents.published PAGE` reads all numbers of a Markdown page that has a section for each
source (`## Seed 1 …`), finds the row of published-numbers.csv that quotes the words around each, and looks the number
up at the place that the row names: a preset's `published`, a parameter, a preset's own field, or a page with a reason.
It prints a line for each number. Exit code 1: one is in no row, or not where its row says.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
import sys
from fnmatch import fnmatchcase
from functools import cache
from itertools import chain, product
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from stepbench.contracts.transfer.plan import PublishedTransfer
from stepbench.planning import parse_plan
from stepbench.planning.presets import find_plan, list_plans, preset_directory
from stepbench_tools.documents.printed import Number, is_printed, numbers_in, stands_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from stepbench.contracts.plan import AnyTrial

DOCS = preset_directory().parents[1] / "docs"
NOWHERE = "\N{EN DASH}"
"""The place of a number that is scored nowhere; its row says why."""
_PARAMETERS = "parameters"
_SECTION = re.compile(r"^## Seed (\d).*$", re.MULTILINE)


class Parameter(NamedTuple):
    """A row of published.csv: what a source set a parameter to, what is ours, and where that is."""

    source: str
    presets: str
    parameter: str
    published: str
    ours: str
    where: str
    why: str


class Quotation(NamedTuple):
    """A row of published-numbers.csv: words with numbers, the place of each in the same order, and what differs."""

    source: str
    words: str
    where: str
    why: str


class Entry(NamedTuple):
    """What a preset has of a published number: of which trial or cell, its metric, number or range, unit and note."""

    cell: str
    metric: str
    values: tuple[float, ...]
    unit: str
    note: str = ""

    def __str__(self) -> str:
        """Return it as one reads it."""
        return f"{self.cell}: {self.metric} {' to '.join(f'{value:.10g}' for value in self.values)} {self.unit}"


class Finding(NamedTuple):
    """One number, and where it is, or what is there instead."""

    number: Number
    place: str
    found: bool = True


class Line(NamedTuple):
    """A number of a page: its source, the words around it, and what was found of it."""

    source: str
    words: str
    finding: Finding


def read_parameters() -> list[Parameter]:
    """Return the table of parameters."""
    return [Parameter(*cells) for cells in _rows("published.csv")]


def read_quotations() -> list[Quotation]:
    """Return the table of published numbers."""
    return [Quotation(*cells) for cells in _rows("published-numbers.csv")]


def _rows(name: str) -> list[list[str]]:
    with (DOCS / name).open(encoding="utf-8", newline="") as lines:
        return [*csv.reader(lines)][1:]


@cache
def published_by(preset: str) -> tuple[Entry, ...]:
    """Return all that a preset has under `published`."""
    return tuple(chain.from_iterable(map(_entries, parse_plan(find_plan(preset)).trials)))


def _entries(trial: AnyTrial) -> Iterator[Entry]:
    for each in trial.published:
        if isinstance(each, PublishedTransfer):
            cell = "-".join(str(part) for part in (each.platform, each.source, each.file_size_mib) if part is not None)
            metric = f"{each.metric} over {each.over_source}" if each.over_source else each.metric
            yield Entry(cell, metric, (each.value,), each.unit, each.note)
        else:
            values = (each.number, *([each.to] if each.to else []))
            yield Entry(each.trial or trial.name or trial.target.store, each.metric, values, each.unit, each.note)


def values_at(node: Any, steps: Sequence[str]) -> Iterator[Any]:  # noqa: ANN401 -- JSON
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


def steps_of(path: str) -> list[str]:
    """Return the steps of a path such as `phases[-1].load[*].rate_per_s`."""
    return re.findall(r"[^.\[\]]+", path)


def places_of(where: str) -> list[str]:
    """Return one place for each number: `preset: trial-{1,2}: p50, p95` are four."""
    return [place for each in where.split("; ") for place in _expanded(each)]


def _expanded(place: str) -> Iterator[str]:
    kind, _, rest = place.partition(": ")
    cells, _, metrics = rest.rpartition(": ")
    if kind == _PARAMETERS or not cells:
        yield place
        return
    pieces = [piece.split(",") for piece in re.split(r"\{([^}]*)\}", cells)]
    for choice in product(*pieces):
        yield from (f"{kind}: {''.join(choice)}: {metric}" for metric in metrics.split(", "))


def find(quotation: Quotation, parameters: Iterable[Parameter]) -> list[Finding]:
    """Return where each number of the words is; of one place for all of them, each has to be there."""
    numbers, places = numbers_in(quotation.words), places_of(quotation.where)
    if len(places) == 1:
        places *= len(numbers)
    if len(places) != len(numbers):
        return [Finding(each, f"{len(numbers)} numbers, and {len(places)} places", found=False) for each in numbers]
    own = [each for each in parameters if each.source.startswith(f"Source {quotation.source}:")]
    return [_find(number, place, own, quotation.why) for number, place in zip(numbers, places, strict=True)]


def _find(number: Number, place: str, parameters: Sequence[Parameter], why: str) -> Finding:
    kind, _, rest = place.partition(": ")
    cell, _, metric = rest.partition(": ")
    if place == NOWHERE or place.startswith("["):
        return Finding(number, f"{place} {why or 'without a reason'}", found=bool(why))
    if kind == _PARAMETERS:
        rows = [row for row in parameters if row.parameter == rest]
        found = [f"{place}: {row.published} ({row.presets})" for row in rows if stands_in(number, row.published)]
        there = [row.published for row in rows]
    elif kind not in list_plans():
        found, there = [], []
    elif rest.startswith("plan."):
        values = values_at({"plan": json.loads(find_plan(kind))}, steps_of(rest))
        there = [each if isinstance(each, str) else json.dumps(each) for each in values]
        found = [f"{place}: {text}" for text in there if stands_in(number, text)]
    else:
        entries = [entry for entry in published_by(kind) if fnmatchcase(entry.cell, cell)]
        there = [str(entry) for entry in entries if metric in {entry.metric, "note"}]
        found = [f"{kind}: {entry}" for entry in entries if entry.metric == metric and _has(entry, number)]
        if metric == "note":
            found = [f"{kind}: {entry}, note: {entry.note}" for entry in entries if stands_in(number, entry.note)]
    return Finding(number, found[0]) if found else Finding(number, f"not at {place}: {there}", found=False)


def _has(entry: Entry, number: Number) -> bool:
    return any(is_printed(number, value, entry.unit) for value in entry.values)


def look_up(page: str, quotations: Sequence[Quotation], parameters: Sequence[Parameter]) -> Iterator[Line]:
    """Yield every number of a page's sections, and where it is, or that no row quotes it."""
    parts = _SECTION.split(page)[1:]
    for source, text in zip(parts[::2], parts[1::2], strict=True):
        section = " ".join(text.replace("**", "").split())
        found: dict[int, Finding] = {}
        for row in quotations:
            if row.source == source and section.count(row.words) == 1:
                offset = section.index(row.words)
                found |= {offset + each.number.start: each for each in find(row, parameters)}
        for number in numbers_in(section):
            words = section[max(0, number.start - 30) : number.end + 20]
            missing = Finding(number, "in no row of published-numbers.csv whose words stand here once", found=False)
            yield Line(source, words, found.get(number.start, missing))


def main(arguments: Sequence[str]) -> int:
    """Print where every number of the page is; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", type=Path, metavar="PAGE", help="Markdown, with sections `## Seed 1 …`")
    page = parser.parse_args(arguments).page
    if not page.is_file():
        parser.error(f"{page}: no such file; name a Markdown page")
    lines = [*look_up(page.read_text("utf-8"), read_quotations(), read_parameters())]
    for source, words, finding in lines:
        mark = "" if finding.found else "MISSING "
        sys.stdout.write(f"{source} | {finding.number.text} | {words} | {mark}{finding.place}\n")
    missing = sum(not line.finding.found for line in lines)
    sys.stdout.write(f"{len(lines)} numbers, {missing} missing\n")
    return 1 if missing or not lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
