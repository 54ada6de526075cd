"""The command `runs`: what is listed, in which order, and what is not passed over."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from tests.samples.comparisons import etcd
from tests.unit.tools.cli.conftest import stored_run

from stepbench.analysis.verdicts import plan_verdicts
from stepbench_tools.cli import main

if TYPE_CHECKING:
    import pytest

OUT = Path("out")


def test_runs_are_listed_newest_first_with_what_came_of_them(capsys: pytest.CaptureFixture[str]) -> None:
    """The folder of results has fifty names that differ in a time."""
    for age, (name, status, verdict) in enumerate(
        [
            ("new", "succeeded", "passed"),
            ("short", "succeeded", "undecided"),
            ("old", "succeeded", "failed"),
            ("older", "stopped", None),
        ]
    ):
        stored_run(OUT / name, status=status, verdict=verdict, started_at=f"2026-01-0{4 - age}T00:00:00+00:00")
        os.utime(OUT / name / "summary.json", (1e9 + age, 1e9 + age))
    assert main(["runs"]) == 0
    lines = capsys.readouterr().out.splitlines()
    runs = [line.split()[3:] for line in lines if not line.startswith(" ")]
    assert runs == [["passed", "new"], ["undecided", "short"], ["missed", "old"], ["stopped", "older"]]
    assert all(len(line) <= 80 for line in lines)
    assert "p50" in lines[1]


def test_a_run_that_compares_has_its_verdict_and_no_number_of_its_first_trial(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It is what the run was made for."""
    verdicts = plan_verdicts([etcd(2.0, "slow"), etcd(1.0, "fast")])
    stored_run(OUT / "one", verdicts=verdicts)
    assert main(["runs"]) == 0
    _, *answer = capsys.readouterr().out.splitlines()
    assert " ".join(line.strip() for line in answer).startswith("fast against slow: ")
    assert len(answer) <= 2


def test_a_run_under_several_names_is_listed_once(capsys: pytest.CaptureFixture[str]) -> None:
    """Its copies are no folders without a summary, either."""
    stored_run(OUT / "one")
    shutil.copytree(OUT / "one", OUT / "again")
    (OUT / "linked").symlink_to(Path("one"))
    assert main(["runs", "--json"]) == 0
    captured = capsys.readouterr()
    assert [json.loads(line)["folder"] for line in captured.out.splitlines()] == ["out/one"]
    assert captured.err == "run one is taken from out/one; left out, as copies of it: out/again, out/linked\n"


def test_what_is_no_run_or_cannot_be_read_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever misses a run has to learn why it is not there."""
    stored_run(OUT / "whole")
    stored_run(OUT / "broken")
    (OUT / "broken/summary.json").write_text("{}")
    (OUT / "killed/trials").mkdir(parents=True)
    assert main(["runs", "--json"]) == 0
    captured = capsys.readouterr()
    assert [json.loads(line)["run_id"] for line in captured.out.splitlines()] == ["whole"]
    assert "out/broken/summary.json is not of this version" in captured.err
    assert "out/killed: has no summary.json" in captured.err


def test_an_object_a_run_has_what_a_script_asks_for(capsys: pytest.CaptureFixture[str]) -> None:
    """Such as the newest run of a plan that passed."""
    summary = stored_run(OUT / "one", verdict="passed")
    assert main(["runs", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["headline"]
    assert (told["run_id"], told["plan"], told["verdict"]) == ("one", summary.plan, "passed")
    assert (told["started_at"], told["folder"]) == (summary.started_at, "out/one")


def test_no_folder_of_runs_is_bad_input(capsys: pytest.CaptureFixture[str]) -> None:
    """An empty list would say that nothing was ever run."""
    assert main(["runs", "--out", "nowhere"]) == 2
    assert '--out: is no folder (got "nowhere")' in capsys.readouterr().err
