"""How far a run is, and how long it will take: pure functions of what was seen of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stepbench.report.digits import count, duration

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stepbench.contracts.phase import Phase
    from stepbench.contracts.plan import TrialPlan, TrialSpec

WRITER = "writer#"


@dataclass(frozen=True)
class Overheads:
    """What orchestration adds, in seconds: a guess for the time left, and for nothing else."""

    prepare_s: float
    phase_s: float
    finish_s: float
    report_s: float


LOCAL = Overheads(prepare_s=8, phase_s=8, finish_s=10, report_s=6)
AWS = Overheads(prepare_s=60, phase_s=35, finish_s=60, report_s=20)


@dataclass(frozen=True)
class PhaseStart:
    """The phase that runs, its time zero and, where `until` has ended it, when (ns since the epoch)."""

    index: int
    start_at_ns: int
    stop_at_ns: int | None = None

    def offered_s(self, phase: Phase) -> float:
        """How long it is offered, in seconds; with `until`, at most, until it is known."""
        return phase.length_s if self.stop_at_ns is None else (self.stop_at_ns - self.start_at_ns) / 1e9


@dataclass(frozen=True)
class Snapshot:
    """
    What is known of a run at one moment.

    `trial` is None before the first trial and between two; `phase` is None while the target is prepared.
    """

    specs: tuple[TrialSpec, ...]
    started_ns: int
    now_ns: int
    trial: int | None = None
    done: int = 0
    phase: PhaseStart | None = None
    sent: int = 0
    received: int = 0


def sent(beats: Mapping[str, Mapping[str, object]]) -> int:
    """Events sent by all writers together, by their signs of life."""
    writers = [beat for who, beat in beats.items() if who.startswith(WRITER)]
    return sum(_counter(beat.get("progress"), "sent") for beat in writers)


def _counter(progress: object, name: str) -> int:
    value = progress.get(name, 0) if isinstance(progress, dict) else 0
    return int(value)


def trial_s(spec: TrialSpec, overheads: Overheads) -> float:
    """How long a trial takes, from nothing to torn down."""
    phases = len(spec.plan.phases) * overheads.phase_s
    return overheads.prepare_s + spec.plan.length_s + phases + overheads.finish_s


def left_s(snapshot: Snapshot, overheads: Overheads) -> float:
    """Seconds until the report, as far as one can tell."""
    following = snapshot.specs[snapshot.done if snapshot.trial is None else snapshot.trial + 1 :]
    rest = sum(trial_s(spec, overheads) for spec in following) + overheads.report_s
    if snapshot.trial is None:
        return rest
    return rest + _left_of_trial(snapshot.specs[snapshot.trial], snapshot, overheads)


def _left_of_trial(spec: TrialSpec, snapshot: Snapshot, overheads: Overheads) -> float:
    if snapshot.phase is None:
        return trial_s(spec, overheads)
    current, *following = spec.plan.phases[snapshot.phase.index :]
    since_s = (snapshot.now_ns - snapshot.phase.start_at_ns) / 1e9
    left = max(0.0, snapshot.phase.offered_s(current) - since_s)
    return left + sum(phase.settle_s + phase.length_s + overheads.phase_s for phase in following) + overheads.finish_s


def activity(snapshot: Snapshot) -> str:
    """What happens now, in a few words."""
    if snapshot.trial is None:
        return "writing the report" if snapshot.done >= len(snapshot.specs) else "validating the plan"
    phases = snapshot.specs[snapshot.trial].plan.phases
    if snapshot.phase is None:
        return "preparing the target"
    phase = phases[snapshot.phase.index]
    since_s = (snapshot.now_ns - snapshot.phase.start_at_ns) / 1e9
    if since_s < 0:
        return f"phase {phase.name}: writers get ready"
    if since_s < snapshot.phase.offered_s(phase):
        return f"phase {phase.name}"
    last = snapshot.phase.index == len(phases) - 1
    return "arrivals and analysis" if last else f"after phase {phase.name}"


def share_done(snapshot: Snapshot, overheads: Overheads) -> float:
    """Between 0 and 1, by time."""
    elapsed_s = max(0.0, (snapshot.now_ns - snapshot.started_ns) / 1e9)
    left = left_s(snapshot, overheads)
    return elapsed_s / (elapsed_s + left) if elapsed_s + left > 0 else 1.0


def line(snapshot: Snapshot, overheads: Overheads) -> str:
    """The snapshot as one line of text."""
    left = f"about {duration(left_s(snapshot, overheads))} left"
    if snapshot.trial is None:
        return f"{activity(snapshot)} \N{MIDDLE DOT} {left}"
    spec = snapshot.specs[snapshot.trial]
    place = f"trial {snapshot.trial + 1}/{len(snapshot.specs)} {spec.name}"
    return " \N{MIDDLE DOT} ".join((place, activity(snapshot), _events(snapshot, spec.plan), left))


def _events(snapshot: Snapshot, plan: TrialPlan) -> str:
    """`sent 200 of 400, received 180`."""
    if any(phase.closed for phase in plan.phases):
        return f"{count(snapshot.sent)} operations"
    about = "about " if plan.arrivals == "poisson" else ""
    about = "up to " if any(phase.until or phase.probe for phase in plan.phases) else about
    sent = f"sent {count(snapshot.sent)} of {about}{count(plan.events)}"
    if plan.experiment == "operations":
        return sent
    # What two watchers see while they hand over is in the table twice.
    received = f"received {count(min(snapshot.received, plan.events))}"
    share = plan.record.matching_share
    return f"{sent}, {received}" if share == 1 else f"{sent}, {received} (the filter lets {share:g} pass)"
