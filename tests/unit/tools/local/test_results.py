"""Results on this machine: read, found, rendered again."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from tests.samples.results import sample_manifest, sample_results

from stepbench.contracts.documents import Failure
from stepbench.contracts.result import RunSummary, TrialResult
from stepbench.errors import CorruptRecordsError, PlanError
from stepbench.report.caveats import caveat_groups
from stepbench.report.summary import RunFacts, TrialStore, missing_result, summarise
from stepbench_tools.local.results import find_run, read_summary, rerender, sentences

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


def test_no_summary_is_none_and_a_broken_one_an_error(tmp_path: Path) -> None:
    """The first is a run that ended early, the second a file of another version."""
    assert read_summary(tmp_path) is None
    (tmp_path / "summary.json").write_text('{"schema": 99}')
    with pytest.raises(CorruptRecordsError, match=r"summary\.json is not of this version"):
        read_summary(tmp_path)


def test_a_failed_trial_says_why_below_the_table() -> None:
    """The row names the error, the line below its cause."""
    assert "etcd: TargetUnavailableError: no etcd at 127.0.0.1:1" in list(sentences(run_of((failed(),))))


def test_caveats_are_said_once_each_and_before_the_answer() -> None:
    """Whoever looks at a terminal sees its end: twelve alike caveats there hid what the run had found."""
    summary = run_of(sample_results()).model_copy(update={"question": "How long?"})
    told = list(sentences(summary))
    groups = caveat_groups(summary.trials)
    assert len(groups) < sum(len(trial.caveats) for trial in summary.trials)
    assert told[: len(groups)] == [f"{group.name} ({group.whom}): {group.text}" for group in groups]
    answer = told[told.index("") + 1 :]
    assert answer[0] == "How long?"
    assert any(line.startswith("s3") and "p50" in line for line in answer)


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
    assert find_run(str(folder), tmp_path / "elsewhere", print) == folder
    assert find_run("sample-run", tmp_path, print) == folder
    folder.rename(tmp_path / "renamed")
    assert find_run("sample-run", tmp_path, print) == tmp_path / "renamed"
    with pytest.raises(PlanError, match="neither a run's folder nor a run below"):
        find_run("other", tmp_path, print)


def test_a_run_that_was_killed_is_known(tmp_path: Path) -> None:
    """Its folder lies there: that it is none would be untrue."""
    (tmp_path / "killed" / "trials").mkdir(parents=True)
    with pytest.raises(PlanError, match=r"has no summary\.json: it goes on, or was killed"):
        find_run("killed", tmp_path, print)
