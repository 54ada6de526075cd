"""Words on the command line, and the runs that they mean."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
from tests.samples.comparisons import etcd, run

from stepbench.errors import CorruptRecordsError, PlanError
from stepbench_tools.local.comparing import compare, select

if TYPE_CHECKING:
    from pathlib import Path


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
        ("one", "other", "B", "has nothing to compare with A: s3, dsql in B, etcd, redis in A"),
    ],
)
def test_what_cannot_be_compared_is_bad_input(out: Path, a: str, b: str, path: str, words: str) -> None:
    """With what there is."""
    with pytest.raises(PlanError) as refused:
        compare(a, b, out, 0.05, print)
    (problem,) = refused.value.problems
    assert problem.path == path
    assert words in problem.message


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
