"""The commands about finished runs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.samples.results import sample_results, sample_summary
from tests.unit.tools.cli.conftest import stored_run

from stepbench.contracts.thresholds import ThresholdResult
from stepbench_tools.cli import main


def test_a_run_that_is_not_there_is_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The message says where it was looked for."""
    assert main(["report", "nope", "--out", str(tmp_path)]) == 2
    assert str(tmp_path) in capsys.readouterr().err


@pytest.mark.parametrize(
    ("format_", "first"), [("md", "### quick-unloaded: failed"), ("csv", "trial,name,store,"), ("junit", "<?xml ")]
)
def test_other_forms_go_to_stdout_and_leave_the_page_alone(
    format_: str, first: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are for a pipe: one line more, and a spreadsheet or a pull request has it."""
    summary = sample_summary(sample_results())
    (tmp_path / "run-1").mkdir()
    (tmp_path / "run-1/summary.json").write_text(summary.model_dump_json(by_alias=True))
    assert main(["report", "run-1", "--format", format_, "--out", str(tmp_path)]) == 0
    output = capsys.readouterr()
    assert output.out.startswith(first)
    assert (output.err, [path.name for path in (tmp_path / "run-1").iterdir()]) == ("", ["summary.json"])


def test_a_strict_build_server_takes_what_is_not_decided_for_a_failure(capsys: pytest.CaptureFixture[str]) -> None:
    """Of other forms it would change nothing, which is refused."""
    undecided = ThresholdResult(threshold="p99 < 2 ms", state="undecidable", limit=2, unit="ms", reason="n=200 < 368")
    stored_run(Path("out/a"), thresholds=(undecided,))
    for options, kind in (([], "skipped"), (["--strict"], "failure")):
        assert main(["report", "a", "--format", "junit", *options]) == 0
        assert f'<{kind} message="p99' in capsys.readouterr().out
    assert main(["report", "a", "--strict"]) == 2
    assert "--strict: " in capsys.readouterr().err


def test_the_latest_run_is_the_one_that_runs_lists_first(capsys: pytest.CaptureFixture[str]) -> None:
    """After a run, nobody copies its id."""
    for name, age in (("a", 20), ("b", 10), ("c", 30)):
        stored_run(Path("out") / name, started_at=f"2026-01-01T00:00:{59 - age}+00:00")
        os.utime(Path("out") / name / "summary.json", (1e9 + age, 1e9 + age))
    assert main(["report", "latest"]) == 0
    assert capsys.readouterr().out == "out/b/report.html\n"


def test_a_run_compared_with_itself_is_bad_input(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2, as for a run that there is not: a pipeline has named one run twice."""
    stored_run(Path("out/a"))
    assert main(["compare", "a", "a"]) == 2
    assert "both sides are, or hold, the same run, a" in capsys.readouterr().err


def test_quiet_leaves_the_data_and_verbose_is_its_opposite(capsys: pytest.CaptureFixture[str]) -> None:
    """A script reads the path; the table and the remedies are for people."""
    stored_run(Path("out/a"))
    assert main(["-q", "report", "a"]) == 0
    assert capsys.readouterr() == ("out/a/report.html\n", "")
    assert main(["report", "a"]) == 0
    assert "p50" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        main(["report", "a", "-q", "-v"])


@pytest.mark.parametrize("there_is_one", [True, False])
def test_a_report_is_opened_or_told_where_it_is(tmp_path: Path, there_is_one: bool) -> None:  # noqa: FBT001
    """On a server there is no browser, and a command that ends in silence leaves its user searching."""
    stored_run(Path("out/a"))
    browser, asked = tmp_path / "browser", tmp_path / "asked"
    browser.write_text(f'#!/bin/sh\necho "$1" > {asked}\n')
    browser.chmod(0o755)
    environment = {**os.environ, "BROWSER": f"{browser} %s"} if there_is_one else {"PATH": str(tmp_path / "nothing")}
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    command = [sys.executable, "-m", "stepbench_tools.cli", "report", "a", "--open", "--quiet"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60, env=environment)
    address = Path("out/a/report.html").resolve().as_uri()
    if there_is_one:
        assert (asked.read_text().strip(), done.stderr) == (address, "")
    else:
        assert done.stderr == f"stepbench: no browser could be started; the report is {address}\n"
