"""Transfers on a run's page, on a dataset's page and in Markdown."""

from __future__ import annotations

import json
import re
from typing import cast

import pytest
from tests.samples.results import sample_manifest, sample_results, sample_summary
from tests.samples.transfer_findings import PUBLISHED, STAND_INS, findings_of, transfer_trial, transfers_of
from tests.samples.transfers import month, row

from stepbench.contracts.measures import Estimate
from stepbench.contracts.transfer.result import (
    TransferDependence,
    TransferLevel,
    TransferModes,
    TransferPlateau,
    TransferSandboxes,
    TransferStalls,
)
from stepbench.digits import NBSP
from stepbench.experiments.report.dataset_page import render_dataset
from stepbench.experiments.report.headline import headline_lines
from stepbench.experiments.report.page import render_page
from stepbench.experiments.transfer import words as transfer_words
from stepbench.report.figures import specifications
from stepbench.report.run import state_of
from stepbench_tools.printing import render_dataset_markdown, render_markdown

ROWS = tuple(month(60, days=3))
OTHER_SECTIONS = ("answer", "distribution", "time", "times", "accounting")


@pytest.fixture(scope="module")
def run_page() -> str:
    """Return the page of a run with one trial of transfers."""
    results = (transfer_trial(ROWS),)
    return render_page(sample_summary(results, "quick-transfer"), results, sample_manifest())


@pytest.fixture(scope="module")
def dataset() -> str:
    """Return the page of a dataset."""
    return render_dataset(transfers_of(ROWS), "from 2025-06-05")


def drawn_figures(page: str) -> dict[str, dict[str, object]]:
    """Return the figures that a page's script draws."""
    found = re.search(r'<script type="application/json" id="page-data">(.*?)</script>', page)
    assert found is not None
    figures: dict[str, dict[str, object]] = json.loads(found[1])["figures"]
    return figures


def test_a_run_of_transfers_has_no_sections_of_events(run_page: str) -> None:
    """They would say that no trial measured anything."""
    assert [name for name in OTHER_SECTIONS if f'<section id="{name}"' in run_page] == []
    assert [
        name
        for name in ("transfers-trial-0", "invocations", "cost", "caveats", "provenance")
        if f'id="{name}"' not in run_page
    ] == []
    assert "No trial measured anything" not in run_page


def test_every_link_of_the_page_has_its_place(run_page: str) -> None:
    """Sections that are left out leave no way to them."""
    targets = set(re.findall(r'href="#([^"]+)"', run_page))
    assert targets - set(re.findall(r'\bid="([^"]+)"', run_page)) == set()


def test_transfers_beside_a_trigger_leave_its_sections_alone() -> None:
    """One run may have both."""
    results = (*sample_results()[:1], transfer_trial(ROWS, index=1))
    page = render_page(sample_summary(results), results, sample_manifest())
    assert [name for name in OTHER_SECTIONS if f'<section id="{name}"' not in page] == []
    assert "files: how long does a file take?" in page
    assert "1 trial without any" not in page


def test_each_cell_has_its_numbers_as_a_script_reads_them(run_page: str) -> None:
    """Beside what people read: the value, its interval, its unit."""
    found = findings_of(ROWS)
    rows = re.findall(
        r'<tr class="\w+" data-platform="(\w+)" data-source="(\w+)" data-mib="(\d+)">\s*<th scope="row">\d', run_page
    )
    assert rows == [(cell.platform, cell.source, str(cell.file_size_mib)) for cell in found.cells]
    first = found.cells[0].mean_mib_per_s
    assert f'data-metric="mean_mib_per_s" data-value="{first.value}" data-low="{first.low}"' in run_page


def test_what_stood_in_is_named_wherever_its_rate_is(run_page: str) -> None:
    """A local folder's rate must not pass for that of EFS."""
    assert run_page.count("EFS (local file system) on Fargate (process)") >= 4
    assert re.search(r">EFS on ", run_page) is None


def test_all_six_plots_of_the_source_are_there_and_ours(run_page: str) -> None:
    """Lambda, Fargate, S3 and EFS by size; Lambda and Fargate over time."""
    charts = drawn_figures(run_page)
    sizes = {name for name, figure in charts.items() if figure["chart"] == "transfer-sizes"}
    assert sizes == {f"transfer-sizes-trial-0-{own}" for own in ("lambda", "fargate", "s3", "efs")}
    over_time = {name for name, figure in charts.items() if figure["chart"] == "transfer-time"}
    assert over_time == {f"transfer-time-trial-0-{own}" for own in ("lambda", "fargate")}
    for chart in ("transfer-curves", "transfer-hours", "transfer-progress"):
        assert sum(figure["chart"] == chart for figure in charts.values()) == 4, chart
    assert {str(figure["chart"]) for figure in charts.values()} <= set(specifications())


def test_a_course_is_named_by_its_kind_and_its_duration(run_page: str) -> None:
    """The figure's legend is all that tells the courses apart."""
    for figure in drawn_figures(run_page).values():
        if figure["chart"] == "transfer-progress":
            labels = cast("dict[str, list[str]]", figure["params"])["labels"]
            assert labels
            assert all(re.fullmatch(r"[a-z][a-z ]+, [\d.,]+ s", label) for label in labels), labels


def test_published_numbers_stand_beside_ours(run_page: str) -> None:
    """With the ratio, and the source; what was not measured says so."""
    table = run_page[run_page.index('id="published-trial-0"') :]
    table = table[: table.index("</table>")]
    assert table.count("<tr data-metric") == len(PUBLISHED)
    assert "13.8 ×" in table  # noqa: RUF001 -- times
    assert "not measured" in table
    assert "replicates no number of theirs" in table


def test_trials_of_a_run_stand_side_by_side(run_page: str) -> None:
    """More of them at once, or over more connections: each cell of both in one row. One trial has nobody beside it."""
    results = tuple(transfer_trial(ROWS, name, index) for index, name in enumerate(("at-1", "at-4")))
    page = render_page(sample_summary(results, "quick-transfer"), results, sample_manifest())
    table = page[page.index('id="transfers-side-by-side"') :]
    table = table[: table.index("</table>")]
    assert "at-1" in table
    assert "at-4" in table
    cells = [cell for cell in transfers_of(ROWS).findings.cells if cell.n]
    assert table.count("<tr data-platform") == len(cells)
    assert table.count('data-metric="mean_mib_per_s"') == 2 * len(cells)
    assert 'id="transfers-side-by-side"' not in run_page


def test_a_dataset_page_says_which_days_it_is_of(dataset: str) -> None:
    """It is printed, and sent around."""
    assert "2025-06-05 to 2025-06-07 (UTC), 3 days" in dataset
    assert "240 reads" in dataset
    assert "asked for: from 2025-06-05" in dataset
    assert "How long does a file take?" in dataset


def test_a_dataset_page_needs_nothing_but_itself(dataset: str) -> None:
    """It opens offline, as a run's does: no address but those of namespaces and schemas."""
    outside = re.sub(r"<script.*?</script>", "", dataset, flags=re.DOTALL)
    assert re.findall(r"https?://\S+", outside) == []
    assert "default-src 'none'" in dataset


def test_a_name_is_text_and_never_markup() -> None:
    """A path in an error, a dataset's name: they come from outside."""
    rows = [row(outcome="failed", transfer_ns=None, error="<img src=x onerror=alert(1)>")]
    found = findings_of(rows)
    accounting = found.accounting.model_copy(update={"errors": {rows[0].error: 1}})
    shown = transfers_of(rows, "</title><script>")._replace(
        findings=found.model_copy(update={"accounting": accounting})
    )
    page = render_dataset(shown)
    assert "<img src=x" not in page
    assert "</title><script>" not in page


def test_a_dataset_in_which_all_failed_is_a_page_too() -> None:
    """Whoever looks wants to know why."""
    rows = [row(outcome="failed", transfer_ns=None, error="Timeout")]
    page = render_dataset(transfers_of(rows))
    assert "Nothing was read to its end" in page
    assert drawn_figures(page) == {}


def test_transfers_left_out_of_the_points_are_counted() -> None:
    """A caption that says each point is a transfer must not hide that some have none."""
    shown = transfers_of(ROWS)
    points = (shown.charts.points[0].model_copy(update={"left_out": 17}), *shown.charts.points[1:])
    charts = shown.charts.model_copy(update={"points": points})
    page = render_dataset(shown._replace(charts=charts))
    assert "17 of 240 have none" in page


def test_markdown_has_answers_cells_and_accounting() -> None:
    """For a pull request: what the page says, without its figures."""
    text = render_dataset_markdown("steady", findings_of(ROWS), STAND_INS)
    assert text.startswith("### steady: 2025-06-05 to 2025-06-07 (UTC), 3 days, 240 reads\n")
    assert "**Not AWS's: S3 (emulated), EFS (local file system), Fargate (process). These times say nothing" in text
    assert text.count("\n| ") == 2 + len(findings_of(ROWS).cells)
    assert "rates are 0.720 × (0.670 to 0.763) those before" in text  # noqa: RUF001 -- times
    assert "241 reads offered: " in text


def test_a_runs_markdown_and_headline_have_the_transfers() -> None:
    """A terminal and a pull request say what the page says."""
    results = (transfer_trial(ROWS),)
    summary = sample_summary(results)
    assert "MiB/s" in render_markdown(summary)
    line = headline_lines(summary)[-1]
    assert line.startswith("files: A 500 MiB file")
    assert line.endswith("emulated")


def test_a_trial_that_broke_off_after_some_reads_is_incomplete() -> None:
    """Its numbers are shown, and marked."""
    whole = transfer_trial(ROWS).summary
    assert state_of(whole) == "complete"
    assert state_of(whole.model_copy(update={"incomplete": True})) == "incomplete"
    nothing = transfer_trial([row(outcome="failed", transfer_ns=None)]).summary
    assert state_of(nothing.model_copy(update={"incomplete": True})) == "failed"


@pytest.mark.parametrize(
    ("plateau", "said"),
    [
        (TransferPlateau(from_mib=250, mib_per_s=24.6, rises=True), "levels off from 250 MiB at 24.6 MiB/s; whether"),
        (
            TransferPlateau(from_mib=250, mib_per_s=24.6, rises=True, client_limit=True),
            "may be the reading process's own limit",
        ),
        (TransferPlateau(from_mib=250, mib_per_s=24.6, rises=True, client_limit=False), "at 24.6 MiB/s."),
        (TransferPlateau(from_mib=None, mib_per_s=None, rises=True), "rises up to the largest size"),
        (TransferPlateau(from_mib=None, mib_per_s=None, rises=False), "does not rise"),
        (TransferPlateau(from_mib=None, mib_per_s=None, rises=False, reason="one size"), "Not judged: one size."),
    ],
)
def test_a_plateau_is_told_with_its_doubt(plateau: TransferPlateau, said: str) -> None:
    """S3's plateau may be the client's own, as the source's authors could not know."""
    assert said in transfer_words.describe_plateau(plateau)


def test_an_hour_that_differs_is_named() -> None:
    """And one that does not is not."""
    slow = TransferLevel(at=3, n=9, mean_mib_per_s=9.0, relative=0.6, differs=True)
    usual = TransferLevel(at=4, n=9, mean_mib_per_s=15.0, relative=1.0)
    found = TransferDependence(levels=(slow, usual), p_value=0.0004, found=True)
    assert transfer_words.describe_hours(found) == (
        "Rates depend on the hour of the day (p < 0.001): 03 (0.60 ×) of the median's rate."  # noqa: RUF001 -- times
    )
    none = TransferDependence(levels=(slow, usual), p_value=0.4)
    assert transfer_words.describe_weekdays(none) == "No dependence on the weekday is shown (p = 0.4)."


def test_modes_are_listed_where_they_are_found_only() -> None:
    """One mode is what a test could not reject."""
    cells = findings_of(ROWS).cells
    shown = {cell.source: transfer_words.format_modes(cell.modes).replace(NBSP, " ") for cell in cells}
    assert shown == {"efs": "44.5 (31 %), 221 (69 %)", "s3": "one"}
    assert transfer_words.describe_modes(TransferModes(reason="fewer than 20")) == "Not judged: fewer than 20."


@pytest.mark.parametrize(
    ("correlation", "said"),
    [
        (Estimate(value=0.41, low=0.1, high=0.65), "the two rates go together (rank correlation 0.41"),
        (Estimate(value=0.1, low=-0.2, high=0.4), "it is not shown that the two rates go together (rank"),
        (Estimate(value=-0.4, low=-0.6, high=-0.1), "the two rates go against each other (rank"),
        (Estimate(value=None, reason="n=9 < 30"), "nobody can tell whether one slow"),
    ],
)
def test_what_two_reads_of_a_sandbox_have_in_common_is_told_with_its_doubt(correlation: Estimate, said: str) -> None:
    """Each was cold: neither read alone tells whether the sandbox or the source was slow."""
    found = TransferSandboxes(platform="lambda", n=37, correlation=correlation)
    sentence = transfer_words.describe_sandboxes(found, {"lambda": "process"})
    assert sentence.startswith("Of 37 sandboxes of Lambda (process) that read from both sources, ")
    assert said in sentence.replace(NBSP, " ")


def test_stalls_are_counted_of_those_whose_progress_is_known() -> None:
    """Of rows of others it is not."""
    share = Estimate(value=0)
    none = TransferStalls(judged=40, stalls=0, transfers=0, share=share)
    some = TransferStalls(judged=40, stalls=3, transfers=2, share=share, median_s=2.0, longest_s=2.5)
    assert transfer_words.describe_stalls(none) == "none of 40 transfers"
    assert transfer_words.describe_stalls(some) == "2 of 40 transfers, 2.00 s in half the cases, 2.50 s at most"
