"""The runs of one plan as series of numbers, how changes in them are looked for, and what was found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from stepbench.contracts.base import BrokenRule, Contract, RuledContract
from stepbench.contracts.measures import Estimate, KindName
from stepbench.contracts.thresholds import Quantile, Time, measure_name

if TYPE_CHECKING:
    from collections.abc import Iterator

SeriesVerdict = Literal["no_change", "suspected", "regression", "improvement", "shift", "spike", "drift", "undecidable"]
TELLING: frozenset[SeriesVerdict] = frozenset({"regression", "improvement", "drift"})
"""Verdicts that are reported when they come about; the false-alarm rate counts these."""
MOST_RUNS = 400
"""Of a plan; earlier ones say nothing of today's."""


class RollingMedian(Contract):
    """The baseline is the level of the last so many runs before those that are judged."""

    kind: Literal["rolling_median"] = "rolling_median"
    runs: int = Field(default=100, ge=10, le=MOST_RUNS)


class LastGreen(Contract):
    """The baseline is the level of the last so many runs that kept to the plan's thresholds."""

    kind: Literal["last_green"] = "last_green"
    runs: int = Field(default=100, ge=10, le=MOST_RUNS)


class NamedRun(Contract):
    """The baseline is the level that began with a run: of so many runs from it on, whatever came later."""

    kind: Literal["named_run"] = "named_run"
    run_id: str = Field(min_length=1, max_length=200)
    runs: int = Field(default=100, ge=10, le=MOST_RUNS)


Baseline = Annotated[RollingMedian | LastGreen | NamedRun, Field(discriminator="kind")]


class DetectorSettings(Contract):
    """How changes over the runs of a plan are looked for."""

    min_effect: float = Field(
        default=0.05, ge=0.01, le=1, description="As a share: smaller changes are none. 0.05 is 5 %."
    )
    baseline: Baseline = RollingMedian()
    false_alarms_per_100_runs: float = Field(
        default=0.1, ge=0.001, le=5, description="Of all series of the plan together."
    )


class Series(Contract):
    """One number of a plan, run after run. `quantile`: of latency or another time; None of throughput and cost."""

    group: str
    phase: str
    window: str
    kind: KindName | None = None
    measure: Time | Literal["throughput", "cost"] = "latency"
    quantile: Quantile | None = None

    @property
    def name(self) -> str:
        """Return it in words: `s3 · steady / last minute, read, p99`."""
        parts = [
            f"{self.group} · {self.phase} / {self.window}",
            *filter(None, (self.kind, measure_name(self.measure, self.quantile))),
        ]
        return ", ".join(parts).replace("_", "-")


class SeriesValue(Contract):
    """A series' number in one run, in ms or per second."""

    series: Series
    estimate: Estimate


class SeriesRun(Contract):
    """One run of the plan. `green`: it missed none of the plan's thresholds."""

    run_id: str
    started_at: str = Field(description="ISO 8601, UTC.")
    confirms: str | None = Field(default=None, description="The run that it was made to confirm.")
    green: bool = True
    acknowledged: str = Field(default="", description="Why the level that begins with this run is accepted, if it is.")
    changed: str = Field(default="", description="Stores of another version than in the run before: old and new one.")
    values: tuple[SeriesValue, ...] = ()


class RunSeries(RuledContract):
    """The runs of one plan, in order."""

    plan: str
    runs: tuple[SeriesRun, ...] = Field(max_length=MOST_RUNS)

    def _broken_rules(self) -> Iterator[BrokenRule]:
        seen: set[str] = set()
        for place, run in enumerate(self.runs):
            at = f"runs[{place}]"
            if run.run_id in seen:
                yield BrokenRule(f"{at}.run_id", f'"{run.run_id}" is given twice', "Give each run once.")
            if run.confirms is not None and run.confirms not in seen:
                message = f'"{run.confirms}" is no earlier run of the series'
                yield BrokenRule(f"{at}.confirms", message, "Give runs in order, or leave it out.")
            if place and run.started_at < self.runs[place - 1].started_at:
                yield BrokenRule(f"{at}.started_at", "is before that of the run before", "Give runs in order.")
            seen.add(run.run_id)


class Shift(Contract):
    """A change of level. `run_id`: the first run on the new one. `told_at`: the run with which it was confirmed."""

    run_id: str
    told_at: str = Field(default="", description="Empty where it was acknowledged before it was found.")
    ratio: Estimate | None = Field(default=None, description="New level over the one before.")
    better: bool | None = Field(default=None, description="None where the change is not known.")
    acknowledged: str = Field(default="", description="Why it is accepted; empty where it is not.")


class SeriesFinding(Contract):
    """
    What is to be said of a series with its last run.

    `regression` and `drift` stand until the level is back or the shift is acknowledged; `told` says whether this is the
    run with which they, or an `improvement`, came about.
    """

    series: Series
    verdict: SeriesVerdict
    told: bool = False
    baseline: Estimate | None = Field(default=None, description="The level that the last runs are set against.")
    baseline_runs: int = Field(default=0, ge=0)
    last: Estimate | None = Field(default=None, description="The last run's own number.")
    ratio: Estimate | None = Field(default=None, description="Of levels, where a change is found or suspected.")
    slope: Estimate | None = Field(default=None, description="Of a drift: the ratio of a run to the one before.")
    shifts: tuple[Shift, ...] = ()
    spikes: tuple[str, ...] = Field(default=(), description="Single runs far off.")
    runs_to_decide: int | None = Field(
        default=None,
        ge=1,
        description="Undecidable: how many further runs it would take; otherwise on how many runs a change of the "
        "minimum effect would be reported. None: more than are looked at.",
    )
    least_effect: float | None = Field(
        default=None, description="The smallest change, as a share, that would be reported on the most runs looked at."
    )
    text: str


class Regressions(Contract):
    """What was found in the runs of one plan, as of the last of them. `confirm`: a confirming run is asked for."""

    plan: str
    last_run: str
    runs: int = Field(ge=1)
    settings: DetectorSettings
    findings: tuple[SeriesFinding, ...]
    confirm: bool
    passed: bool = Field(
        description="False where a regression or drift for the worse stands, or the last run lacks numbers."
    )
    not_comparable: tuple[str, ...] = Field(
        default=(), description="Runs of the plan under other settings or elsewhere, which are left out."
    )
    missing: tuple[str, ...] = Field(
        default=(), description="Groups of trials of which the last run has no numbers: it does not pass."
    )
    behind: tuple[str, ...] = Field(
        default=(), description="Groups that fell behind their load in the last run, and had not before: as `missing`."
    )
    false_alarms: str = Field(description="The detector's own measured rate, with its source.")
