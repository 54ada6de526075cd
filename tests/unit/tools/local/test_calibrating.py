"""`stepbench calibrate`: the command, and what it does where nothing comes of the run."""

from __future__ import annotations

import contextlib
import json
from io import StringIO
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from rich.console import Console

from stepbench.contracts.findings import SlowSpells
from stepbench.contracts.identity import trial_tag
from stepbench.errors import LocalEnvironmentError
from stepbench.planning import find_plan, parse_plan
from stepbench_tools.calibration.instrument import Calibration, Count
from stepbench_tools.calibration.report import CalibrationReport, Judged, judge, verdict_lines
from stepbench_tools.cli import main
from stepbench_tools.local import calibrating, calibrating_transfers
from stepbench_tools.local.calibrating import calibrate_plan, print_report, with_rate
from stepbench_tools.local.paths import Paths

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from stepbench.contracts.plan import Plan

PLAN = parse_plan(find_plan("calibrate"))


def trial(lost: int = 0) -> Calibration:
    """Return an exact calibration, or one with losses that the truth does not have."""
    count = Count(metric="lost", truth=0, measured=lost, differing=lost)
    return Calibration(
        name="one", n=1, errors=(), counts=(count,), stalled=0, stalled_seen=0, out_ms=0.1, back_ms=0.1, strangers=0
    )


ABSURD = (
    ["--runs", "0"],
    ["--rate", "0.5"],
    ["--rate", "nan"],
    ["--rate", "1e9"],
    ["--transfers", "503"],
    ["--transfers", "--runs", "1"],
)
"""503 transfers span no three weeks, of which weekdays are judged."""


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Record the command line's calls; `lost` decides how they end."""
    seen: dict[str, Any] = {"lost": 0}

    def plan(paths: Paths, plan: Plan, out: Path, _console: Console) -> CalibrationReport:
        seen.update(plan=plan, out=out, paths=paths)
        return judge("plan", (trial(seen["lost"]),))

    def runs(runs: int, rate_per_s: float, _notify: object) -> CalibrationReport:
        seen.update(runs=runs, rate=rate_per_s)
        return judge("runs", (trial(seen["lost"]),))

    def transfers(transfers: int, out: Path, _notify: object) -> CalibrationReport:
        seen.update(transfers=transfers, out=out)
        return judge("transfers", (trial(seen["lost"]),))

    monkeypatch.setattr(calibrating_transfers, "calibrate_transfers_here", transfers)
    monkeypatch.setattr(calibrating, "calibrate_plan", plan)
    monkeypatch.setattr(calibrating, "calibrate_runs", runs)
    return seen


def test_the_plan_is_run_at_the_rate_that_is_asked_for(
    asked: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Words go to stderr; without --json, nothing goes to stdout."""
    assert main(["calibrate", "--rate", "250", "--out", str(tmp_path / "out")]) == 0
    assert [trial.phases[1].load[0].rate_per_s for trial in asked["plan"].trials] == [250] * 5
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.endswith(
        "counts exact in 1 of 1\nthe instrument keeps its limits (latency, stalls and counts)\n"
    )


def test_short_runs_are_an_alternative_and_json_is_one_line(
    asked: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """CI checks the counts so."""
    assert main(["calibrate", "--runs", "3", "--json"]) == 0
    assert (asked["runs"], asked["rate"]) == (3, 500)
    document = json.loads(capsys.readouterr().out)
    assert (document["schema"], document["judged"], document["passed"]) == (1, "runs", True)
    assert document["trials"][0]["counts"][0]["metric"] == "lost"


@pytest.mark.parametrize(("arguments", "transfers"), [([], 672), (["504"], 504)])
def test_transfers_are_an_alternative_of_their_own(
    asked: dict[str, Any], arguments: list[str], transfers: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a number there are as many as find all that is planted; the folder for their records is made."""
    out = tmp_path / "out"
    assert main(["calibrate", "--json", "--out", str(out), "--transfers", *arguments]) == 0
    assert (asked["transfers"], asked["out"], out.is_dir()) == (transfers, out, True)
    captured = capsys.readouterr()
    assert json.loads(captured.out)["judged"] == "transfers"
    kept = "the instrument keeps its limits (times, stalls, counts and levels)"
    assert captured.err.endswith(f"counts exact in 1 of 1\n{kept}\n")


@pytest.mark.parametrize("arguments", [["--runs", "2"], ["--transfers"], []])
def test_an_instrument_that_fails_ends_with_1(
    asked: dict[str, Any], arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A pipeline stops there, and says why."""
    asked["lost"] = 1
    assert main(["calibrate", *arguments, "--out", str(tmp_path)]) == 1
    assert "one: lost: measured 1, truth 0, 1 differ" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", ABSURD)
def test_what_makes_no_sense_is_bad_input(arguments: list[str]) -> None:
    """It is refused before anything is started."""
    with pytest.raises(SystemExit, match="2"):
        main(["calibrate", *arguments])


def test_the_preset_is_as_documented_and_another_rate_leaves_the_warm_up() -> None:
    """It has every kind of delay, 500/s for 10 s each, and one trial with all faults."""
    assert [trial.target.delay.kind for trial in PLAN.trials if trial.target.store == "reference"] == [
        *("constant", "bimodal", "pareto", "stalls", "bimodal")
    ]
    assert {trial.phases[1].events for trial in PLAN.trials} == {5_000}
    faster = with_rate(PLAN, 1_000)
    assert {(trial.phases[0].events, trial.phases[1].events) for trial in faster.trials} == {(200, 10_000)}


@pytest.mark.parametrize("outcome", [None, {"stopped": True, "summary": 1}, {"stopped": False, "summary": None}])
def test_a_run_that_came_to_nothing_is_an_error(
    outcome: dict[str, Any] | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It must not be taken for a calibration without failures."""

    @contextlib.contextmanager
    def session(_paths: object, _notify: object) -> Iterator[Any]:
        yield SimpleNamespace(stack=None)

    class NoRunner:
        def __init__(self, *_arguments: object) -> None:
            pass

        def run_one(self, _plan: object) -> tuple[object, bool]:
            found = SimpleNamespace(**outcome, run_id="r", folder=tmp_path / "out") if outcome else None
            return found, False

    monkeypatch.setattr(calibrating, "local_session", session)
    monkeypatch.setattr(calibrating, "Runner", NoRunner)
    monkeypatch.setattr(calibrating, "check_cores", lambda: None)
    truth = tmp_path / "data/reference/truth"
    truth.mkdir(parents=True)
    (truth / f"{trial_tag('r', 0)}.jsonl").write_text("what there is\n")
    with pytest.raises(LocalEnvironmentError, match="did not come to an end"):
        calibrate_plan(Paths(tmp_path, tmp_path), PLAN, tmp_path, Console(file=StringIO()))
    kept = [path.read_text() for path in tmp_path.glob("out/trials/*/truth.jsonl")]
    assert kept == (["what there is\n"] if outcome else [])


@pytest.mark.parametrize("judged", ["plan", "runs", "transfers"])
def test_a_slow_machine_is_named_before_the_verdict(judged: Judged) -> None:
    """Whoever reads that the instrument fails has to know that the machine does; a quiet one is worth no line."""
    slow = SlowSpells(looked_s=5.2, share=0.077, longest_ms=55, spells=8)
    *_, named, exact, verdict = verdict_lines(judge(judged, (trial(1),), slow))
    assert named.startswith(
        "This machine ran below 60 % of its speed in 7.7 % of the 5.2 s that were looked at, for up"
    )
    assert ("counts exact in 0 of 1" in exact, "FAILS" in verdict) == (True, True)
    quiet = slow.model_copy(update={"share": 0.004})
    assert not [line for line in verdict_lines(judge(judged, (trial(),), quiet)) if "This machine" in line]


def test_what_is_shown_of_a_plan_has_its_table() -> None:
    """Short runs would fill the screen with theirs."""
    texts = []
    for report in (judge("plan", (trial(),)), judge("runs", (trial(),))):
        print_report(report, Console(file=(text := StringIO()), width=200))
        texts.append(text.getvalue())
    assert ["measured ms" in text for text in texts] == [True, False]
