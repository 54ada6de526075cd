"""Progress of a run and the time that it will take, as pure functions of what was observed of it.

Progress for people, on stderr: one live line on a terminal, a line now and then elsewhere.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from stepbench.digits import count, duration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from rich.console import Console

    from stepbench.contracts.phase import Phase
    from stepbench.contracts.plan import TrialPlan, TrialSpec

    Show = Callable[["Snapshot"], None]

WRITER = "writer#"
LEASE_WAIT_S = 600
"""So long PrepareTarget is tried again while another run holds the target; the trial machine says so."""


@dataclass(frozen=True)
class Overheads:
    """Orchestration adds so many seconds: a guess for the time left, and for nothing else."""

    prepare_s: float
    phase_s: float
    finish_s: float
    report_s: float


LOCAL = Overheads(prepare_s=8, phase_s=8, finish_s=10, report_s=6)
AWS = Overheads(prepare_s=60, phase_s=35, finish_s=60, report_s=20)


@dataclass(frozen=True)
class PhaseStart:
    """The phase that runs has an index, a time zero and, where `until` has ended it, an end (ns since the epoch)."""

    index: int
    start_at_ns: int
    stop_at_ns: int | None = None

    def offered_s(self, phase: Phase) -> float:
        """Return how many seconds it is offered; with `until`, at most so many, until its end is known."""
        return phase.length_s if self.stop_at_ns is None else (self.stop_at_ns - self.start_at_ns) / 1e9


@dataclass(frozen=True)
class Snapshot:
    """
    A snapshot holds what is known of a run at one moment.

    `trial` is None before the first trial and between two; `phase` is None while the target is prepared. `holder` has
    the target that the trial waits for; "" while it waits for none.
    """

    specs: tuple[TrialSpec, ...]
    started_ns: int
    now_ns: int
    trial: int | None = None
    trial_seen_ns: int = 0
    holder: str = ""
    done: int = 0
    phase: PhaseStart | None = None
    sent: int = 0
    received: int = 0


def sent(beats: Mapping[str, Mapping[str, object]]) -> int:
    """Return the events sent by all writers together, by their heartbeats."""
    progress = [beat.get("progress") for who, beat in beats.items() if who.startswith(WRITER)]
    return sum(int(each.get("sent", 0)) for each in progress if isinstance(each, dict))


def trial_s(plan: TrialPlan, overheads: Overheads) -> float:
    """Return how many seconds a trial takes, from nothing to torn down."""
    return overheads.prepare_s + plan.length_s + len(plan.phases) * overheads.phase_s + overheads.finish_s


def run_s(trials: Iterable[TrialPlan], overheads: Overheads) -> float:
    """Return how many seconds a run of these trials takes, until its report."""
    return sum(trial_s(plan, overheads) for plan in trials) + overheads.report_s


def left_s(snapshot: Snapshot, overheads: Overheads) -> float:
    """Estimate the seconds until the report."""
    following = snapshot.specs[snapshot.done if snapshot.trial is None else snapshot.trial + 1 :]
    rest = run_s((spec.plan for spec in following), overheads)
    if snapshot.trial is None:
        return rest
    return rest + _left_of_trial(snapshot.specs[snapshot.trial], snapshot, overheads)


def _left_of_trial(spec: TrialSpec, snapshot: Snapshot, overheads: Overheads) -> float:
    if snapshot.phase is None:
        return trial_s(spec.plan, overheads)
    current, *following = spec.plan.phases[snapshot.phase.index :]
    since_s = (snapshot.now_ns - snapshot.phase.start_at_ns) / 1e9
    left = max(0.0, snapshot.phase.offered_s(current) - since_s)
    return left + sum(phase.settle_s + phase.length_s + overheads.phase_s for phase in following) + overheads.finish_s


def activity(snapshot: Snapshot) -> str:
    """Describe in a few words what happens now."""
    if snapshot.trial is None:
        return "writing the report" if snapshot.done >= len(snapshot.specs) else "validating the plan"
    phases = snapshot.specs[snapshot.trial].plan.phases
    if snapshot.phase is None:
        return f"waiting for the target, which {snapshot.holder} holds" if snapshot.holder else "preparing the target"
    phase = phases[snapshot.phase.index]
    since_s = (snapshot.now_ns - snapshot.phase.start_at_ns) / 1e9
    if since_s < 0:
        return f"phase {phase.name}: writers get ready"
    if since_s < snapshot.phase.offered_s(phase):
        return f"phase {phase.name}"
    last = snapshot.phase.index == len(phases) - 1
    return "arrivals and analysis" if last else f"after phase {phase.name}"


def share_done(snapshot: Snapshot, overheads: Overheads) -> float:
    """Return the share of the time that has passed, between 0 and 1."""
    elapsed_s = max(0.0, (snapshot.now_ns - snapshot.started_ns) / 1e9)
    left = left_s(snapshot, overheads)
    return elapsed_s / (elapsed_s + left) if elapsed_s + left > 0 else 1.0


def line(snapshot: Snapshot, overheads: Overheads) -> str:
    """Format the snapshot as one line of text."""
    left = f"about {duration(left_s(snapshot, overheads))} left"
    if snapshot.trial is None:
        return f"{activity(snapshot)} \N{MIDDLE DOT} {left}"
    spec = snapshot.specs[snapshot.trial]
    place = f"trial {snapshot.trial + 1}/{len(snapshot.specs)} {spec.name}"
    return " \N{MIDDLE DOT} ".join((place, activity(snapshot), _wait(snapshot) or _events(snapshot, spec.plan), left))


def _wait(snapshot: Snapshot) -> str:
    """Format how long the trial waits for its target, "" if for none: `at most 9 min 30 s more`."""
    if snapshot.phase is not None or not snapshot.holder:
        return ""
    waited_s = (snapshot.now_ns - snapshot.trial_seen_ns) / 1e9
    return f"at most {duration(max(0.0, LEASE_WAIT_S - waited_s))} more"


def _events(snapshot: Snapshot, plan: TrialPlan) -> str:
    """Format the counts: `sent 200 of 400, received 180`."""
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


REDRAWS_PER_S = 2
"""Drawing costs time on the machine that is being measured."""
EVERY_NS = 15 * 10**9


@contextlib.contextmanager
def progress_display(console: Console, overheads: Overheads) -> Iterator[Show]:
    """Yield the function to call with each snapshot."""
    if not console.is_terminal:
        yield PlainLines(console, overheads)
        return
    columns = (BarColumn(bar_width=20), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=console, refresh_per_second=REDRAWS_PER_S, transient=True) as bars:
        task: TaskID = bars.add_task("starting", total=1.0)

        def show(snapshot: Snapshot) -> None:
            bars.update(task, completed=share_done(snapshot, overheads), description=line(snapshot, overheads))

        yield show


class PlainLines:
    """The display prints a line whenever something else happens, and every 15 s while nothing does."""

    def __init__(self, console: Console, overheads: Overheads) -> None:
        self._console = console
        self._overheads = overheads
        self._last: tuple[int | None, str] | None = None
        self._at_ns = 0

    def __call__(self, snapshot: Snapshot) -> None:
        """Print the snapshot, if it is time for a line."""
        what = (snapshot.trial, activity(snapshot))
        if what == self._last and snapshot.now_ns - self._at_ns < EVERY_NS:
            return
        self._last, self._at_ns = what, snapshot.now_ns
        self._console.print(line(snapshot, self._overheads), markup=False, highlight=False, soft_wrap=True)
