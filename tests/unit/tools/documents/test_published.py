"""A number counts as found where it is printed so, of that kind, at the place that its row names, and nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepbench_tools.documents import published
from stepbench_tools.documents.printed import is_printed, numbers_in
from stepbench_tools.documents.published import NOWHERE, Parameter, Quotation, find, look_up, main, places_of

TIMES = "\N{MULTIPLICATION SIGN}"
PARAMETERS = [
    Parameter("Source 1: triggers", "`paper-clock`", "events of each kind", "`200`", "`200`", "phases", ""),
    Parameter("Source 1: triggers", "`paper-elastic*`", "warm-up, s", "`900`", "`900`", "phases", ""),
    Parameter("Source 2: DSQL", "`paper-dsql-*`", "parallelism", "`1, 50`", "`1, 50`", "writers", ""),
]
PAGE = """# Checklist
What comes before the first section is of no source: 17.

## Seed 1 · `000_8f.txt` · 2026
- **Clock check**: 200 events (Fig. 4); D is **0.14**, at 2 ms of t2 and O-1.

## Seed 2
- 200 functions.
"""
ROWS = [
    Quotation("1", "200 events", "parameters: events of each kind", ""),
    Quotation("1", "D is 0.14", "paper-clock: one-sandbox: ks", ""),
]


def printed(text: str) -> list[tuple[float, str]]:
    """Return values and units."""
    return [(each.value, each.unit) for each in numbers_in(text)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("S3 median 1,157 → 1,335 ms", [(1157, "ms"), (1335, "ms")]),
        ("3.5-4x its p90; 92, 94 and 40 %", [(3.5, TIMES), (4, TIMES), (92, "%"), (94, "%"), (40, "%")]),
        ("162(612) 105(518)", [(162, ""), (612, ""), (105, ""), (518, "")]),
        ("minutes 3 and 4 count, for 15 min", [(3, "min"), (4, "min"), (15, "min")]),
        ("t2, O-1, m6g.2xlarge in us-east-1, p99.9, Fig. 4, section 4.1, 2023-12-05, `(id 7)`", []),
        ("5,000 rows/s, 9 s", [(5000, "per_s"), (9, "s")]),
    ],
)
def test_numbers_are_read_with_their_units(text: str, found: list[tuple[float, str]]) -> None:
    """One in a list has the unit that stands behind the list; digits of names are none."""
    assert printed(text) == found


@pytest.mark.parametrize(
    ("text", "value", "unit", "same"),
    [
        ("103 ms", 103, "ms", True),
        ("103 ms", 103.4, "ms", True),
        ("103 ms", 104, "ms", False),
        ("103 ms", 103, "ratio", False),
        ("103", 103, "per_s", True),
        ("10.0 s", 10.1, "s", False),
        ("29 %", 1.29, "ratio", True),
        ("92 %", 0.08, "ratio", True),
        ("150 %", 0.4, "ratio", True),
        ("29 %", 1.3, "ratio", False),
        ("10 %", 10, "ratio", False),
        ("4 ms", 4, "per_s", False),
    ],
)
def test_a_value_is_what_is_printed_to_the_last_digit(text: str, value: float, unit: str, *, same: bool) -> None:
    """Small numbers are everywhere: kind and digits have to agree."""
    [number] = numbers_in(text)
    assert is_printed(number, value, unit) is same


def test_a_place_stands_for_each_of_its_trials_and_metrics() -> None:
    """In the order in which a table's row has them: 10(12) 9(11)."""
    assert places_of("plan: a-{1,2}: p50, p95; parameters: key, bytes") == [
        "plan: a-1: p50",
        "plan: a-1: p95",
        "plan: a-2: p50",
        "plan: a-2: p95",
        "parameters: key, bytes",
    ]


@pytest.mark.parametrize(
    ("words", "where"),
    [
        ("INSERT 162(612)", "paper-dsql-reuse: local-insert-reconnect-50: p50, p95"),
        ("200 events", "parameters: events of each kind"),
        ("for 15 min", "parameters: warm-up, s"),
        ("2 to 62 %", "paper-share: plan.applications[*].name"),
        ("1,300 ms", "paper-unloaded: s3: note"),
    ],
)
def test_a_number_is_found(words: str, where: str) -> None:
    """Among a preset's numbers and notes, in its plan, and among the parameters, whose minutes are seconds."""
    source = "2" if "dsql" in where else "1"
    assert all(each.found for each in find(Quotation(source, words, where, ""), PARAMETERS))


@pytest.mark.parametrize(
    ("words", "where"),
    [
        ("INSERT 162(613)", "paper-dsql-reuse: local-insert-reconnect-50: p50, p95"),
        ("INSERT 612(162)", "paper-dsql-reuse: local-insert-reconnect-50: p50, p95"),
        ("INSERT 162(612)", "paper-dsql-reuse: local-insert-reuse-50: p50, p95"),
        ("INSERT 162(612)", "paper-dsql-reuse: local-insert-reconnect-{50,100}: p50, p95"),
        ("INSERT 162(612)", "paper-nothing: local-insert-reconnect-50: p50, p95"),
        ("1 and 50 at once", "parameters: events of each kind"),
        ("50 at once", "parameters: no such"),
        ("200 events", "parameters: events of each kind"),
        ("50 at once", NOWHERE),
    ],
)
def test_a_number_is_not_found(words: str, where: str) -> None:
    """Another value, order, trial, preset, source; more places than numbers; or no reason."""
    findings = find(Quotation("2", words, where, ""), PARAMETERS)
    assert findings
    assert not all(each.found for each in findings)


def test_every_number_of_a_page_is_looked_up() -> None:
    """What no row quotes is missing, and a row is of its own source's section alone."""
    lines = [(line.source, line.finding.number.text, line.finding.found) for line in look_up(PAGE, ROWS, PARAMETERS)]
    assert lines == [("1", "200", True), ("1", "0.14", True), ("1", "2", False), ("2", "200", False)]


def test_words_that_stand_twice_are_no_row() -> None:
    """Which of the two the row means could not be said."""
    page = PAGE.replace("at 2 ms", "and 200 events")
    found = [line.finding.found for line in look_up(page, ROWS, PARAMETERS) if line.source == "1"]
    assert found == [False, True, False]


@pytest.mark.parametrize(("page", "code"), [("## Seed 1\nD is 0.14\n", 0), ("## Seed 1\nD is 0.15\n", 1), ("none", 1)])
def test_the_exit_code_says_whether_all_are_found(
    page: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A page without a number has not been checked."""
    monkeypatch.setattr(published, "read_quotations", lambda: ROWS)
    (tmp_path / "page.md").write_text(page, "utf-8")
    assert main([str(tmp_path / "page.md")]) == code
    assert ("paper-clock: one-sandbox: ks 0.14 d" in capsys.readouterr().out) is (code == 0)
