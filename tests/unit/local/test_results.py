"""Results on this machine: shown whole, rendered again."""

from __future__ import annotations

import io
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from rich.console import Console
from tests.samples.results import refused_result, sample_manifest, sample_results, sample_summary

from stepbench import digits
from stepbench.contracts.result import Failure, RunSummary, TrialResult
from stepbench.errors import CorruptRecordsError, PlanError
from stepbench.local.results import _cell, find_run, headline, read_summary, remedies, rerender
from stepbench.report.headline import HEADINGS
from stepbench.report.summary import RunFacts, TrialStore, missing_result, summarise

if TYPE_CHECKING:
    from pathlib import Path

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def run_of(results: tuple[TrialResult, ...]) -> RunSummary:
    """Return the summary of a run with these results."""
    return summarise(RunFacts("sample-run", "sample", NOW, NOW), results)


def failed() -> TrialResult:
    """Return a trial of which nothing was measured."""
    failure = Failure(error="TargetUnavailableError", cause="no etcd at 127.0.0.1:1")
    return missing_result("etcd", 0, TrialStore("etcd", "etcd 3.5.1", emulated=False), failure, 0.0)


def printed(summary: RunSummary, width: int) -> str:
    """Return the headline as a terminal of that width shows it."""
    console = Console(file=io.StringIO(), width=width)
    console.print(headline(summary, width))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize("width", [80, 120])
def test_the_tables_title_names_a_missed_threshold(width: int) -> None:
    """It is the first line that a user sees after a run."""
    shown = printed(sample_summary([refused_result(sample_results()[2], {"57P01": 15})]), width)
    title = " ".join(shown.split())
    assert "succeeded; threshold missed: errors < 1 %: 7.0 % in postgresql" in title


def test_no_summary_is_none_and_a_broken_one_an_error(tmp_path: Path) -> None:
    """The first is a run that ended early, the second a file of another version."""
    assert read_summary(tmp_path) is None
    (tmp_path / "summary.json").write_text('{"schema": 99}')
    with pytest.raises(CorruptRecordsError, match=r"summary\.json is not of this version"):
        read_summary(tmp_path)


def test_a_wide_terminal_shows_everything() -> None:
    """It has n, quantiles with intervals, lost and caveats."""
    summary = run_of(sample_results())
    text = printed(summary, 220)
    assert "sample-run: " in text
    for trial in summary.trials:
        assert trial.name in text
    assert "caveats" in text
    assert "emulated" in text


@pytest.mark.parametrize(
    ("width", "dropped"),
    [(220, set()), (160, {"caveats", "provider"}), (110, {"caveats", "provider", "p99", "floor p50"})],
)
def test_a_narrow_terminal_drops_columns_rather_than_digits(width: int, dropped: set[str]) -> None:
    """Half a number is a wrong number."""
    table = headline(run_of(sample_results()), width)
    assert set(HEADINGS) - {str(column.header) for column in table.columns} == dropped
    text = printed(run_of(sample_results()), width)
    assert "…" not in text
    assert max(len(line) for line in text.splitlines()) <= width


def test_a_number_without_an_interval_is_marked_and_a_reason_is_none() -> None:
    """The mark is explained below the table, where there is one; why is among the caveats."""
    lines = printed(run_of(sample_results()), 220)
    assert "n=" not in lines
    assert re.search(r"~[\d.]+ ms", lines)
    assert "~ has no interval: the run was too short for it" in lines
    assert [_cell(cell, "p95", "200") for cell in ("nothing was measured", "> 30 s", "4.5 ms", "~4.5 ms")] == [
        digits.NONE,
        "> 30 s",
        "4.5 ms",
        "~4.5 ms",
    ]


def test_what_is_emulated_says_so_on_a_narrow_terminal() -> None:
    """Its numbers say nothing about AWS, however little room there is."""
    table = printed(run_of(sample_results()), 80)
    assert "provider" not in table
    emulated = [trial.name for trial in run_of(sample_results()).trials if trial.emulated]
    assert emulated
    for name in emulated:
        assert f"{name} (emulated)" in table


def test_a_failed_trial_says_why_in_its_row_and_below() -> None:
    """The row names the error, the line below its cause."""
    summary = run_of((failed(),))
    assert "TargetUnavailableError" in printed(summary, 220)
    assert "etcd: TargetUnavailableError: no etcd at 127.0.0.1:1" in list(remedies(summary))


def stored(folder: Path, results: tuple[TrialResult, ...]) -> Path:
    """Store a run's files, without the results of trials that left none, and return the folder."""
    folder.mkdir(parents=True)
    (folder / "summary.json").write_text(run_of(results).model_dump_json(by_alias=True))
    (folder / "manifest.json").write_text(sample_manifest().model_dump_json())
    for result in results:
        if result.summary.windows:
            path = folder / "trials" / f"{result.summary.index:04d}" / "result.json"
            path.parent.mkdir(parents=True)
            path.write_text(result.model_dump_json())
    return folder


def test_a_report_is_rendered_again_from_its_files(tmp_path: Path) -> None:
    """The numbers stay as they were analysed; a trial without a result is in it, too."""
    first, *_ = sample_results()
    lost = failed()
    lost = lost.model_copy(update={"summary": lost.summary.model_copy(update={"index": 1, "name": "gone"})})
    folder = stored(tmp_path / "sample-run", (first, lost))
    summary, page = rerender(folder)
    assert summary.run_id == "sample-run"
    text = page.read_text("utf-8")
    assert first.summary.provider in text
    assert "gone" in text


def test_a_missing_or_foreign_file_is_named(tmp_path: Path) -> None:
    """A folder may have been copied half."""
    folder = stored(tmp_path / "sample-run", sample_results()[:1])
    (folder / "manifest.json").unlink()
    with pytest.raises(CorruptRecordsError, match=r"manifest\.json is missing"):
        rerender(folder)
    (folder / "manifest.json").write_text("{}")
    with pytest.raises(CorruptRecordsError, match=r"manifest\.json is not of this version"):
        rerender(folder)


def test_a_run_is_found_by_folder_and_by_id(tmp_path: Path) -> None:
    """A user gives whichever is at hand."""
    folder = stored(tmp_path / "sample-run", sample_results()[:1])
    assert find_run(str(folder), tmp_path / "elsewhere") == folder
    assert find_run("sample-run", tmp_path) == folder
    with pytest.raises(PlanError, match="neither a run's folder nor a run below"):
        find_run("other", tmp_path)


def test_a_run_that_was_killed_is_known(tmp_path: Path) -> None:
    """Its folder lies there: that it is none would be untrue."""
    (tmp_path / "killed" / "trials").mkdir(parents=True)
    with pytest.raises(PlanError, match=r"has no summary\.json: it goes on, or was killed"):
        find_run("killed", tmp_path)
