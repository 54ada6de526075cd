"""What a run finds across its trials: groups of repeats, curves over clients, shares, verdicts, and clocks compared."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from stepbench.contracts.base import Contract, drop_field
from stepbench.contracts.findings import Replication
from stepbench.contracts.measures import Estimate, KindName


class TriggerShare(Contract):
    """
    How much of an application's time its triggers take, each at its median; the functions take `compute_ms`.

    Estimates: share from 0 to 1; trigger latency of the whole chain in ms.
    """

    application: str
    source: str
    trial: str = Field(description="The trial whose latency stands for `measured` triggers; empty for none.")
    trials: tuple[str, ...] = Field(default=(), description="All trials whose latencies are in it.")
    triggers: int = Field(ge=1)
    compute_ms: float = Field(gt=0)
    trigger_ms: Estimate
    share: Estimate


class GroupWindow(Contract):
    """Latency in ms of one window over the repeats of a trial: geometric means of the runs' own quantiles."""

    window: str
    phase: str
    runs: int = Field(ge=0, description="How many repeats went through whole; the others are not in it.")
    p50: Estimate
    p90: Estimate
    p95: Estimate
    p99: Estimate

    @model_validator(mode="before")
    @classmethod
    def _read_older(cls, fields: Any) -> Any:  # noqa: ANN401 -- anything may stand there
        """Pass over the ratio to the first group, which verdicts have instead."""
        return drop_field(fields, "median_ratio")


class GroupResult(Contract):
    """The repeats of one trial, or of one point of its matrix."""

    name: str
    trials: tuple[int, ...] = Field(description="Their indexes.")
    point: dict[str, Any] = Field(default={}, description="Their matrix values, by dotted path.")
    windows: tuple[GroupWindow, ...]


class ScalingPoint(Contract):
    """One number of clients of a scaling curve; throughput in acknowledged operations a second."""

    clients: int
    trials: tuple[int, ...] = Field(description="Their indexes.")
    throughput_per_s: float
    fitted_per_s: float | None
    kept_runs: int = Field(
        ge=0, description="In how many of them the generator did not hold its clients back: those fitted."
    )
    saturated: bool = Field(description="In none of them, so that the point is the generator's as much as the store's.")


class ScalingCurve(Contract):
    """
    Throughput over the number of clients, with the Universal Scalability Law fitted to it.

    X(N) = rate N / (1 + contention (N - 1) + coherency N (N - 1)). `knee`: where it is largest. Estimates are None with
    a reason where there are too few points.
    """

    name: str = Field(
        description="What the trials' names have in common, with what distinguishes them from another curve's."
    )
    window: str
    phase: str
    points: tuple[ScalingPoint, ...]
    rate_per_s: Estimate = Field(description="Of one client.")
    contention: Estimate
    coherency: Estimate
    knee_clients: Estimate
    peak_per_s: Estimate
    generator_limit_per_s: float | None = Field(
        description="The most that was achieved beyond the last number of clients with a run in which the generator "
        "did not hold them back; None where nothing lies beyond, or such a run achieved more."
    )


class Ks(Contract):
    """
    Kolmogorov and Smirnov's two-sample test.

    d: largest distance of the two ECDFs. critical_d: what it exceeds by chance in 5 % of cases. A d below it does not
    show that the two are equal.
    """

    d: float
    at_ms: float | None = Field(description="The first place where they are so far apart; None beyond all arrivals.")
    p_value: float
    n: int
    m: int
    critical_d: float


class ClockComparison(Contract):
    """One measure of the trial with one sandbox (a) against the one with several (b)."""

    measure: Literal["latency_ms", "after_ack_ms"]
    ks: Ks | None = Field(description="None where one of the two measured nothing.")
    median_shift_ms: Estimate = Field(description="Median of b minus median of a.")
    text: str = Field(description="What may be concluded, and what not.")


class ClockCheck(Contract):
    """
    Clocks compared by latencies: writer and receiver in one sandbox (a), and in different ones (b), of one store.

    `offset_ms` and `bound_ms` are of b's clocks, as measured; a difference of medians whose whole interval lies within
    offset ± bound is none that the clocks could not explain.
    """

    a: str = Field(description="Trial with same_sandbox.")
    b: str
    store: str
    window: str
    events: int = Field(ge=0, description="Of a: arrived.")
    same_sandbox: int = Field(ge=0, description="Of those: the sandbox that wrote it received it, by id.")
    offset_ms: float | None
    bound_ms: float | None
    comparisons: tuple[ClockComparison, ...]
    replication: tuple[Replication, ...] = Field(default=(), description="Published distances beside ours.")


Finding = Literal["lower", "higher", "same", "undecided", "unknown"]

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

    measure: str = Field(
        description="p50, p90, p99, max, throughput, lost, errors, failed_in_handler or `per dollar`, or what the run "
        "is judged by: `response p99`."
    )
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
    judged: str = Field(default="", description="The measure that it answers first; empty: quantiles of latency.")
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
