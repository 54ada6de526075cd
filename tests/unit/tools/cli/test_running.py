"""The commands that measure: what is asked for, and with which exit code it ends."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.tools.cli.conftest import TRIAL, Recorder, here, written

from stepbench_tools.cli import main
from stepbench_tools.local import commands
from stepbench_tools.local.commands import Ending
from stepbench_tools.local.paths import Paths


@pytest.mark.parametrize(("ending", "code"), [(Ending.WHOLE, 0), (Ending.NOT_WHOLE, 1), (Ending.THRESHOLD_MISSED, 3)])
def test_a_run_ends_with_0_only_if_all_of_it_went_through(
    monkeypatch: pytest.MonkeyPatch, plan: str, ending: Ending, code: int
) -> None:
    """A script has to learn of a failed, stopped or skipped trial, and of a missed threshold."""
    recorder = here(monkeypatch, ending)
    assert main(["run", plan]) == code
    [(where, plans, options)] = recorder.asked
    assert isinstance(where, Paths)
    assert [each.name for each in plans] == ["one"]
    assert (options.out, options.json, options.floors) == (Path("out"), False, True)


def test_a_stacks_name_leads_to_the_stack(monkeypatch: pytest.MonkeyPatch, plan: str) -> None:
    """The command works alike against AWS; nothing is started here."""
    recorder = Recorder(answer=Ending.WHOLE)
    monkeypatch.setattr(commands, "run_there", recorder)
    assert main(["run", plan, "--stack", "bench", "--json", "--out", "results", "--no-floors"]) == 0
    [(where, _, options)] = recorder.asked
    assert where == "bench"
    assert (options.out, options.json, options.floors) == (Path("results"), True, False)


def test_one_bad_plan_among_good_ones_starts_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is refused before anything is created, with path, value and remedy on stderr and nothing on stdout."""
    recorder = here(monkeypatch, answer=Ending.WHOLE)
    assert main(["run", "quick-unloaded", written({**TRIAL, "writers": 0})]) == 2
    assert recorder.asked == []
    said = capsys.readouterr()
    assert said.out == ""
    assert "trials[0].writers" in said.err
    assert "(got 0)" in said.err


def test_results_that_could_not_be_kept_are_refused_before_the_run(
    monkeypatch: pytest.MonkeyPatch, plan: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Minutes later, when they are to be written, it would be a traceback and a lost run."""
    recorder = here(monkeypatch, answer=Ending.WHOLE)
    (tmp_path / "file").touch()
    assert main(["run", plan, "--out", str(tmp_path / "file" / "out")]) == 2
    assert recorder.asked == []
    assert "--out: cannot hold results: Not a directory" in capsys.readouterr().err


def test_of_several_plans_the_bad_one_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    """`trials[0]` is in each of them."""
    assert main(["run", "quick-unloaded", bad := written({**TRIAL, "writers": 0})]) == 2
    assert capsys.readouterr().err.startswith(f"stepbench: {bad}: trials[0].writers: ")


def test_a_folder_without_a_name_is_bad_input(capsys: pytest.CaptureFixture[str]) -> None:
    """A script whose variable is empty would fill the folder that it happens to be in."""
    with pytest.raises(SystemExit, match="2"):
        main(["run", "quick-unloaded", "--out", ""])
    assert "--out: names no folder" in capsys.readouterr().err


def test_the_plan_that_runs_is_the_changed_one(monkeypatch: pytest.MonkeyPatch, plan: str) -> None:
    """What a run stores has to be what it did; presets named beside it are changed alike."""
    recorder = here(monkeypatch, answer=Ending.WHOLE)
    options = ["--repeats", "3", "--duration", "5", "--set", "trials[*].writers=2", "-q"]
    assert main(["run", plan, "quick-unloaded-etcd", *options]) == 0
    [(_, plans, how)] = recorder.asked
    for each in plans:
        (trial,) = each.offered_trials
        assert (trial.repeats, trial.writers, trial.phases[-1].length_s) == (3, 2, 5)
    assert (how.quiet, how.verbose, how.open_page) == (True, False, None)
