"""Results on this machine: read, found, rendered again."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from tests.samples.comparisons import etcd, run
from tests.samples.results import sample_manifest, sample_results

from stepbench.contracts.documents import Failure
from stepbench.contracts.result import RunSummary, TrialResult
from stepbench.errors import CorruptRecordsError, PlanError
from stepbench.report.caveats import caveat_groups
from stepbench.report.summary import RunFacts, TrialStore, missing_result, summarise
from stepbench.report.verdicts import NOTHING_IN_COMMON
from stepbench_tools.cli import main
from stepbench_tools.local.results import compare, find_run, read_summary, rerender, select, sentences

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


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """Leave three runs: of two trials, of one, and of another store."""
    for name, trials in {
        "one": (etcd(1.0), etcd(1.0, "redis")),
        "two": (etcd(2.0),),
        "other": (etcd(1.0, "s3"), etcd(1.0, "dsql")),
    }.items():
        folder = tmp_path / name
        folder.mkdir()
        summary = run(*trials, run_id=name)
        (folder / "summary.json").write_text(summary.model_dump_json(by_alias=True), "utf-8")
    return tmp_path


def test_a_run_is_named_by_id_folder_or_summary(out: Path) -> None:
    """All three are the same run."""
    for word in ("one", str(out / "one"), str(out / "one/summary.json")):
        assert [each.run_id for each in select(word, out, "A", print).runs] == ["one"]


def test_a_folder_of_runs_is_all_of_them(out: Path) -> None:
    """They are repeats of one another."""
    assert [each.run_id for each in select(str(out), out, "A", print).runs] == ["one", "other", "two"]


def test_any_two_trials_can_be_compared(out: Path) -> None:
    """Of one run, by their names."""
    (verdict,) = compare("one#redis", "one#etcd", out, 0.05, print).verdicts
    assert verdict.subject == "etcd against redis"


def test_a_run_of_which_nothing_went_through_is_worse(out: Path) -> None:
    """A pipeline stops at a candidate that crashes, and does not take it for bad input."""
    broken = run(etcd(1.0).model_copy(update={"incomplete": True}), run_id="broken")
    (out / "broken").mkdir()
    (out / "broken/summary.json").write_text(broken.model_dump_json(by_alias=True), "utf-8")
    found = compare("two", "broken", out, 0.05, print)
    assert (found.verdicts, found.unfinished_b, found.passed) == ((), ("etcd",), False)


def test_a_trial_that_failed_can_be_named(out: Path) -> None:
    """It is there, and is worse than one that went through."""
    broken = run(etcd(1.0).model_copy(update={"incomplete": True}), etcd(1.0, "redis"), run_id="half")
    (out / "half").mkdir()
    (out / "half/summary.json").write_text(broken.model_dump_json(by_alias=True), "utf-8")
    found = compare("one#etcd", "half#etcd", out, 0.05, print)
    assert (found.broken, found.passed) == (("etcd",), False)


@pytest.mark.parametrize(
    ("a", "b", "path", "words"),
    [
        ("none", "one", "RUN", "is neither a run's folder nor a run below"),
        ("one#s3", "two", "A", "whose trials are: etcd, redis"),
    ],
)
def test_what_cannot_be_compared_is_bad_input(out: Path, a: str, b: str, path: str, words: str) -> None:
    """With what there is."""
    with pytest.raises(PlanError) as refused:
        compare(a, b, out, 0.05, print)
    (problem,) = refused.value.problems
    assert problem.path == path
    assert words in problem.message


def test_runs_without_a_window_in_common_do_not_pass(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No regression was shown, but a pipeline must not take that for a good candidate; nor for bad input."""
    assert main(["compare", "one", "other", "--out", str(out)]) == 1
    said = capsys.readouterr()
    assert said.out.startswith(f"{NOTHING_IN_COMMON}; not in B: etcd, redis\n")
    assert "Only in B: s3, dsql" in said.out
    assert "RUN#TRIAL" in said.err
    assert main(["compare", "one", "other", "--out", str(out), "--format", "junit"]) == 1
    assert 'failures="1"' in capsys.readouterr().out


@pytest.mark.parametrize(
    ("a", "b"), [("one", "one"), ("one", "copy"), ("one#etcd", "one"), ("all", "one"), ("one", "all")]
)
def test_a_run_is_not_compared_with_itself(out: Path, a: str, b: str) -> None:
    """Also under another name, and where it is one of several on a side: it would be found alike, whatever it is."""
    shutil.copytree(out / "one", out / "copy")
    words = {"all": str(out)}
    with pytest.raises(PlanError, match=r"both sides are, or hold, the same run, one: .*stepbench runs.*RUN#TRIAL"):
        compare(words.get(a, a), words.get(b, b), out, 0.05, print)


def test_copies_of_a_run_are_no_repeats(out: Path) -> None:
    """Three copies would be taken for three runs that agree perfectly, and anything for a regression."""
    folder = out / "several"
    for name in ("x", "y", "two"):
        shutil.copytree(out / "two", folder / name)
    (folder / "link").symlink_to(out / "two")
    notes: list[str] = []
    selected = select(str(folder), out, "A", notes.append)
    assert [each.run_id for each in selected.runs] == ["two"]
    left_out = f"{folder / 'link'}, {folder / 'x'}, {folder / 'y'}"
    assert notes == [f"run two is taken from {folder / 'two'}; left out, as copies of it: {left_out}"]


def test_a_damaged_summary_concerns_no_other_run(out: Path) -> None:
    """An empty file of another run ended each comparison of a folder."""
    broken = out / "broken"
    broken.mkdir()
    (broken / "summary.json").touch()
    told: list[str] = []
    assert {each.run_id for each in select(str(out), out, "A", told.append).runs} == {"one", "two", "other"}
    assert [text.partition(":")[0] for text in told] == [f"{broken} is left out"]
    assert compare("one", "two", out, 0.05, told.append).verdicts
    with pytest.raises(CorruptRecordsError, match=r"broken/summary\.json"):
        compare("one", "broken", out, 0.05, told.append)
