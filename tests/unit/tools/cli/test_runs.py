"""The command `runs`: what is listed, in which order, and what is not passed over."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from tests.samples.comparisons import etcd
from tests.samples.run_series import noise, run_id, summaries
from tests.unit.tools.cli.conftest import stored_run

from stepbench.analysis.verdicts import plan_verdicts
from stepbench_tools.cli import main

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


SLOWER = [*noise(40), 12.0, 12.1, 11.9]


def store(values: list[float], plan: str = "nightly") -> None:
    """Write runs below `out`."""
    for summary in summaries(values, plan):
        folder = Path("out") / f"{plan}-{summary.run_id}"
        folder.mkdir(parents=True)
        named = summary.model_copy(update={"run_id": folder.name})
        (folder / "summary.json").write_text(named.model_dump_json(by_alias=True))


def test_a_confirmed_regression_fails_the_pipeline(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 1, and the line says what, since when, and how often the detector is wrong."""
    store(SLOWER)
    assert main(["regressions"]) == 1
    told = capsys.readouterr().out
    assert "regression          etcd" in told
    assert f"since nightly-{run_id(40)}" in told
    assert "False alarms of the detector" in told


def test_a_run_that_was_copied_counts_once(capsys: pytest.CaptureFixture[str]) -> None:
    """It ended in a traceback; as another run it would confirm what it is suspected of."""
    store(noise(15))
    name = f"nightly-{run_id(3)}"
    shutil.copytree(Path("out") / name, Path("out/copy"))
    assert main(["regressions"]) == 0
    captured = capsys.readouterr()
    assert "over 15 runs" in captured.out
    assert captured.err == f"run {name} is taken from out/{name}; left out, as copies of it: out/copy\n"


def test_a_damaged_summary_stops_no_other_plan_s_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """An empty one is what a full disk leaves."""
    store([1.0] * 30)
    Path("out/broken").mkdir()
    Path("out/broken/summary.json").touch()
    Path("out/broken/plan.json").write_text('{"name": "other"}')
    assert main(["regressions", "nightly"]) == 0
    assert "out/broken is left out: " in capsys.readouterr().err
    assert main(["regressions", "other"]) == 2


def test_nothing_is_decided_where_the_last_run_cannot_be_read(capsys: pytest.CaptureFixture[str]) -> None:
    """It may be the one that is worse; only that one is no regression, either."""
    store([1.0] * 30)
    Path("out/broken").mkdir()
    Path("out/broken/summary.json").touch()
    assert main(["regressions", "nightly"]) == 4
    assert "out/broken may be the last run, and cannot be read: nothing is decided" in capsys.readouterr().err


def test_runs_without_a_change_pass(capsys: pytest.CaptureFixture[str]) -> None:
    """Each plan by itself."""
    store(noise(15))
    store(noise(15, seed=6), "other")
    assert main(["regressions"]) == 0
    assert [line for line in capsys.readouterr().out.splitlines() if line.startswith(("nightly", "other"))] == [
        "nightly: no regression in 3 series over 15 runs",
        "other: no regression in 3 series over 15 runs",
    ]


def test_an_acknowledged_shift_passes_and_stays_acknowledged(capsys: pytest.CaptureFixture[str]) -> None:
    """Why is kept beside the runs; of a run that is acknowledged again, the last reason counts."""
    store(SLOWER)
    run = f"nightly-{run_id(40)}"
    assert main(["regressions", "--acknowledge", run, "--why", "TLS"]) == 0
    assert main(["regressions", "--acknowledge", run, "--why", "TLS is on"]) == 0
    assert json.loads(Path("out/acknowledged.json").read_text())["shifts"] == [{"run_id": run, "why": "TLS is on"}]
    capsys.readouterr()
    assert main(["regressions", "--format", "json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert found["findings"][0]["verdict"] == "shift"
    assert found["findings"][0]["shifts"][0]["acknowledged"] == "TLS is on"


def test_junit_has_a_failure_for_what_stands_worse(capsys: pytest.CaptureFixture[str]) -> None:
    """A pipeline shows it as a test that failed; p99, of too few events, is judged by how its runs differ."""
    store(SLOWER)
    assert main(["regressions", "nightly", "--format", "junit"]) == 1
    root = ET.fromstring(capsys.readouterr().out)  # noqa: S314 -- our own
    assert root[0].attrib["name"] == "stepbench regressions nightly"
    assert next(case.attrib["name"] for case in root[0] if case.find("failure") is not None).endswith("p50")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "has no finished run"),
        (["gone"], "has no finished run of gone"),
        (["nightly", "--baseline", "gone"], "is none of the 12 comparable runs"),
        (["--acknowledge", "nightly-r003"], "--acknowledge: is given without the other"),
        (["--acknowledge", "gone", "--why", "x"], "is neither a run's folder nor a run below out"),
    ],
)
def test_bad_input_says_what_to_do(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2, which no pipeline takes for a regression."""
    if arguments:
        store(noise(12))
    assert main(["regressions", *arguments]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments", [["--baseline", "median:5"], ["--min-effect", "0.5"], ["--false-alarms", "9"], ["--min-effect", "x"]]
)
def test_settings_have_bounds(arguments: list[str]) -> None:
    """The parser says so before anything is read."""
    with pytest.raises(SystemExit, match="2"):
        main(["regressions", *arguments])
