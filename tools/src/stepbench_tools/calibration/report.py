"""The report of `stepbench calibrate`: all trials or short runs, and whether the instrument passed. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from stepbench.analysis.slow_spells import describe_slow_spells
from stepbench.contracts.base import Contract
from stepbench.contracts.findings import SlowSpells
from stepbench_tools.calibration.instrument import Aspect, Calibration

if TYPE_CHECKING:
    from collections.abc import Iterator

HEADINGS = ("trial", "n", "quantile", "truth ms", "measured ms", "error ms", "limit ms", "counts", "stalled seen")
NONE = "-"
Judged = Literal["plan", "runs", "transfers"]
_JUDGED: dict[Judged, tuple[Aspect, ...]] = {
    "plan": ("times", "stalls", "counts", "sample"),
    "runs": ("counts", "sample"),
    "transfers": ("times", "stalls", "counts", "levels", "sample"),
}
"""What each kind of calibration is judged by."""
_NAMES = {("plan", "times"): "latency"}
"""A trial's times are latencies, and a transfer's are not."""


class CalibrationReport(Contract):
    """
    The report is what `--json` prints.

    Of a plan and of transfers, everything is judged; of short runs the counts alone, since writer and watcher share one
    process there.
    """

    schema_version: Literal[1] = Field(default=1, alias="schema")
    judged: Judged
    run_id: str | None = None
    passed: bool
    fails: tuple[Aspect, ...] = Field(default=(), description="What does not keep its limits; all else does.")
    trials: tuple[Calibration, ...]
    slow_spells: SlowSpells | None = Field(default=None, description="Of this machine, before and after.")


def judge(
    judged: Judged, trials: tuple[Calibration, ...], slow_spells: SlowSpells | None = None, *, run_id: str | None = None
) -> CalibrationReport:
    """Judge a plan's trials, short runs or runs of transfers: what they are judged by has to hold, and to be there."""
    found = {aspect for trial in trials for aspect, _ in trial.failures_by_aspect()} if trials else {"sample"}
    fails = tuple(aspect for aspect in _JUDGED[judged] if aspect in found)
    return CalibrationReport(
        judged=judged, run_id=run_id, passed=not fails, fails=fails, trials=trials, slow_spells=slow_spells
    )


def table_rows(trials: tuple[Calibration, ...]) -> Iterator[tuple[str, ...]]:
    """Return cells under `HEADINGS`, a row for each quantile; what is the trial's own stands in its first row."""
    for trial in trials:
        counts = ", ".join(
            f"{count.metric} {count.measured:,}{'' if count.passed else f' (truth {count.truth:,})'}"
            for count in trial.counts
        )
        seen = f"{trial.stalled_seen} of {trial.stalled}" if trial.stalled else NONE
        for row, each in enumerate(trial.errors):
            limit = NONE if each.limit_ms is None else f"{each.limit_ms:.3f}"
            own, at_end = (trial.name, str(trial.n)), (counts, seen)
            yield (
                *(own if row == 0 else ("", "")),
                each.metric,
                f"{each.truth_ms:.3f}",
                f"{each.measured_ms:.3f}",
                f"{each.error_ms:+.3f}",
                limit,
                *(at_end if row == 0 else ("", "")),
            )


def verdict_lines(report: CalibrationReport) -> Iterator[str]:
    """Return sentences: what failed, what the hops add, and the verdict."""
    for trial in report.trials:
        judged = _JUDGED[report.judged]
        yield from (f"{trial.name}: {text}" for aspect, text in trial.failures_by_aspect() if aspect in judged)
        yield from (f"{trial.name}: {level}" for level in trial.levels if level.passed)
        if report.judged == "plan" and trial.out_ms is not None and trial.back_ms is not None:
            yield f"{trial.name}: median of the hops: out {trial.out_ms:.3f} ms, back {trial.back_ms:.3f} ms"
    if report.slow_spells is not None and report.slow_spells.matter:
        yield describe_slow_spells(report.slow_spells)
    exact = sum(trial.exact for trial in report.trials)
    yield f"counts exact in {exact} of {len(report.trials)}"
    yield f"the instrument {'keeps its limits' if report.passed else 'FAILS'} ({_named(report)})"


def _named(report: CalibrationReport) -> str:
    """Name what fails; where nothing does, all that was judged."""
    names = [_NAMES.get((report.judged, aspect), aspect) for aspect in report.fails or _JUDGED[report.judged][:-1]]
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
