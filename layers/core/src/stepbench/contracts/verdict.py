"""What a comparison came to: effects with their intervals, and in a sentence what they show."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from stepbench.contracts.base import Contract
from stepbench.contracts.measures import Estimate, KindName

Finding = Literal["lower", "higher", "same", "undecided", "unknown"]
LatencyMeasure = Literal["p50", "p90", "p99", "max"]

OVERLAP = "the windows overlap"
"""The reason why two windows are not compared: events in both would be taken for agreement."""


class Side(Contract):
    """One side of a comparison: the runs of one group of trials, in one window."""

    name: str = Field(description="How sentences call it: a setting's value, a store, a group or a window.")
    group: str
    phase: str
    window: str
    runs: int = Field(ge=0)
    emulated: bool = False


class Effect(Contract):
    """
    One measure of side b against side a.

    `lower` and `higher`: the whole 95 % interval lies on that side. `same`: all of it lies within the smallest
    difference of interest. `undecided`: neither. `unknown`: there is no interval, and `ratio.reason` says why.
    """

    measure: Literal["p50", "p90", "p99", "max", "throughput", "lost", "errors"]
    a: Estimate = Field(description="In ms, per second, or a share; over several runs their geometric mean.")
    b: Estimate
    ratio: Estimate | None = Field(default=None, description="b over a; None of shares.")
    difference: Estimate | None = Field(default=None, description="b minus a, of shares.")
    finding: Finding
    to_decide: str = Field(default="", description="What it would take to show the smallest difference of interest.")
    regressed: bool | None = Field(
        default=None,
        description="Of two runs compared: shown to be worse, and by more than the tolerance. None: no such question.",
    )


class Verdict(Contract):
    """
    One comparison: `b` against `a`.

    `aspect` is what differs: the dotted path of a setting, `target.store`, `trial` (several settings at once), `window`
    or `run`. `over_runs`: the intervals speak of further runs, too; otherwise of these alone.
    """

    aspect: str
    subject: str = Field(description="`b` against `a`, with what both have in common where the plan varies that too.")
    a: Side
    b: Side
    kind: KindName | None = Field(default=None, description="The kind of operation; None for all together.")
    effects: tuple[Effect, ...]
    over_runs: bool
    doubts: tuple[str, ...] = Field(
        default=(), description="Kinds of caveats of either side that may be the reason of a difference, or hide one."
    )
    primary: bool = Field(default=True, description="Whether `a` is the first of its kind in the plan.")
    unlike: str = Field(
        default="",
        description="What else than the aspect is not the same, so that nothing is decided; empty of like sides.",
    )
    text: str

    @property
    def newly_behind(self) -> bool:
        """Return whether events waited ever longer in a run of b, and in none of a: no number shows by how much."""
        p50 = self.effect("p50")
        return not self.unlike and p50 is not None and p50.b.fell_behind and not p50.a.fell_behind

    def effect(self, measure: str) -> Effect | None:
        """Return the effect on a measure, if there is one."""
        return next((effect for effect in self.effects if effect.measure == measure), None)


class ComparedCaveat(Contract):
    """A caveat that makes verdicts doubtful, as the first trial of a side has it."""

    kind: str
    side: Literal["A", "B"]
    trial: str
    trials: int = Field(ge=1, description="How many of the side's trials have one of this kind.")
    text: str
    remedy: str


class RunComparison(Contract):
    """
    What `stepbench compare A B` found; `b` is the candidate, `a` what it is compared with.

    `passed` is False as soon as an effect regressed or a group is `broken` or `behind`, and where there is nothing to
    compare.
    """

    a: tuple[str, ...] = Field(description="Run ids; several are repeats of one another.")
    b: tuple[str, ...]
    tolerance: float = Field(gt=0, description="As a share: 0.05 is 5 %.")
    verdicts: tuple[Verdict, ...]
    only_a: tuple[str, ...] = Field(default=(), description="Groups and windows without a counterpart.")
    only_b: tuple[str, ...] = ()
    unfinished_a: tuple[str, ...] = Field(
        default=(), description="Groups of which a trial failed or broke off; only the others of it are compared."
    )
    unfinished_b: tuple[str, ...] = ()
    broken: tuple[str, ...] = Field(
        default=(), description="Groups of which more trials failed or broke off in b than in a, or all that a has."
    )
    behind: tuple[str, ...] = Field(
        default=(), description="Groups that fell behind their load in b, and kept up with it in a."
    )
    caveats: tuple[ComparedCaveat, ...] = Field(default=(), description="Of the kinds that verdicts name as doubts.")
    passed: bool
