"""Progress of a run and the time that it will take, as pure functions of what was observed of it."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from stepbench import digits
from stepbench.contracts.experiment import measure_of, traits_of
from stepbench.digits import UNSURE, count, duration, rounded, unit_for
from stepbench.planning.wall_time import between_s, offered_s, run_s, trial_s
from stepbench.stats.histogram import histogram_quantile_ns, parse_histogram

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stepbench.contracts.phase import Phase
    from stepbench.contracts.plan import TrialSpec
    from stepbench.planning.wall_time import Overheads

WRITER = "writer#"
RATE_OVER_S = 10
LEAST_RATE_OVER_S = 3
"""Several writers' heartbeats are up to a second apart, so a rate over less than that may be a third wrong."""
_SEPARATOR = " \N{MIDDLE DOT} "
_LEAST_NAME = 12
_QUANTILES = (("p50", 0.5), ("p99", 0.99))
LEASE_WAIT_S = 600
"""The trial machine tries PrepareTarget again for so long while another run holds the target."""


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

    `trial` is None before the first trial and between two; `ahead` are the runs that the run waits for until then.
    `phase` is None while the target is prepared. `holder` has the target that the trial waits for; "" while it waits
    for none. `sent`, `errors` (failed and unknown outcomes) and `received` are the trial's; `received` are arrivals
    since the load began, so no canaries, and None where nobody counts them. `rate_per_s` is what writers have sent of
    late, `service_times` a histogram of the phase's acknowledged requests, as far as their records are stored.
    """

    specs: tuple[TrialSpec, ...]
    started_ns: int
    now_ns: int
    trial: int | None = None
    trial_seen_ns: int = 0
    holder: str = ""
    ahead: int = 0
    done: int = 0
    phase: PhaseStart | None = None
    sent: int = 0
    received: int | None = 0
    errors: int = 0
    rate_per_s: float | None = None
    service_times: Counter[int] = field(default_factory=Counter)


class Arrivals(NamedTuple):
    """How many of a trial's events have arrived, and how many that were written are still to arrive."""

    received: int
    lag: int


def arrivals(snapshot: Snapshot) -> Arrivals | None:
    """
    Return what has arrived of the trial; None where nothing does, as of operations, and where nobody counts.

    What a measured function has printed is read after the load, so that none is counted before.
    """
    if snapshot.trial is None or snapshot.received is None:
        return None
    plan = snapshot.specs[snapshot.trial].plan
    if not measure_of(plan.experiment).arrives or (plan.target.function is not None and not snapshot.received):
        return None
    # What two watchers see while they hand over is in the table twice, and heartbeats are older than arrivals.
    received = min(snapshot.received, snapshot.sent)
    due = round((snapshot.sent - snapshot.errors) * snapshot.specs[snapshot.trial].offered.record.matching_share)
    return Arrivals(received, max(0, due - received))


def counted(beats: Mapping[str, Mapping[str, object]], *outcomes: str) -> int:
    """Return how many events of all writers together came to one of these outcomes, or were `sent`, by heartbeats."""
    progress = [beat.get("progress") for who, beat in beats.items() if who.startswith(WRITER)]
    return sum(int(each.get(outcome, 0)) for each in progress if isinstance(each, dict) for outcome in outcomes)


def last_beat_ns(beats: Mapping[str, Mapping[str, object]]) -> int | None:
    """Return when the latest of the writers' heartbeats was written: its counters may be read seconds later."""
    return max((int(str(beat["at_ns"])) for who, beat in beats.items() if who.startswith(WRITER)), default=None)


def phase_times(beats: Mapping[str, Mapping[str, object]], phase: int) -> Counter[int]:
    """Return the histogram of service times of all writers of a phase, by their heartbeats."""
    beginning = f"{WRITER}{phase:02x}-"
    found: Counter[int] = Counter()
    for who, beat in beats.items():
        if who.startswith(beginning):
            found += parse_histogram(str(beat.get("service_times") or ""))
    return found


@dataclass
class RecentRate:
    """The rate of a counter over its last `RATE_OVER_S` seconds, from what was read of it now and then."""

    _seen: deque[tuple[int, int]] = field(default_factory=deque)

    def add(self, at_ns: int, count: int) -> None:
        """Note the counter, and forget what is older than it takes."""
        self._seen.append((at_ns, count))
        while len(self._seen) > 1 and self._seen[1][0] <= at_ns - RATE_OVER_S * 10**9:
            self._seen.popleft()

    @property
    def per_s(self) -> float | None:
        """Return the rate; None until the counter was seen over two heartbeats at least."""
        if not self._seen or self._seen[-1][0] - self._seen[0][0] < LEAST_RATE_OVER_S * 10**9:
            return None
        (from_ns, before), (to_ns, count) = self._seen[0], self._seen[-1]
        return (count - before) * 1e9 / (to_ns - from_ns)


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
    if not traits_of(spec.plan.experiment).windows:  # it takes as long as its files do, here as there
        read = min(1.0, snapshot.sent / spec.plan.events)
        return (1 - read) * trial_s(spec.plan, overheads) + overheads.finish_s
    current, *following = spec.plan.phases[snapshot.phase.index :]
    plan, since_s = spec.offered, (snapshot.now_ns - snapshot.phase.start_at_ns) / 1e9
    # A phase that may end early is shown at its longest until it has ended: what is left of a guess says nothing.
    expected_s = current.length_s if current.until else offered_s(plan, current, overheads)
    left = max(0.0, min(expected_s, snapshot.phase.offered_s(current)) - since_s)
    load_s = sum(phase.settle_s + offered_s(plan, phase, overheads) for phase in following)
    return left + load_s + between_s(spec.plan, following, overheads) + overheads.finish_s


def activity(snapshot: Snapshot) -> str:
    """Describe in a few words what happens now."""
    if snapshot.trial is None and snapshot.ahead:
        others = "another run" if snapshot.ahead == 1 else f"{snapshot.ahead} other runs"
        return f"waiting for its turn, behind {others}"
    if snapshot.trial is None:
        started = "between two trials" if snapshot.done else "validating the plan"
        return "writing the report" if snapshot.done >= len(snapshot.specs) else started
    phases = snapshot.specs[snapshot.trial].plan.phases
    if snapshot.phase is None:
        return f"waiting for the target, which {snapshot.holder} holds" if snapshot.holder else "preparing the target"
    phase = phases[snapshot.phase.index]
    since_s = (snapshot.now_ns - snapshot.phase.start_at_ns) / 1e9
    if since_s < 0:
        return f"phase {phase.name}: writers get ready"
    if _is_offered(snapshot):
        return f"phase {phase.name}"
    last = snapshot.phase.index == len(phases) - 1
    return "arrivals and analysis" if last else f"after phase {phase.name}"


def share_done(snapshot: Snapshot, overheads: Overheads) -> float:
    """Return the share of the time that has passed, between 0 and 1."""
    elapsed_s = max(0.0, (snapshot.now_ns - snapshot.started_ns) / 1e9)
    left = left_s(snapshot, overheads)
    return elapsed_s / (elapsed_s + left) if elapsed_s + left > 0 else 1.0


def line(snapshot: Snapshot, overheads: Overheads) -> str:
    """Format the snapshot as one line of text, however long."""
    return _SEPARATOR.join((*_what(snapshot), *_counts(snapshot), _left(snapshot, overheads)))


def fitted_lines(snapshot: Snapshot, overheads: Overheads, first: int, width: int) -> list[str]:
    """
    Format the snapshot as lines that are no longer than a terminal is wide, the first one no longer than `first`.

    Of what is too long, the trial's name is shortened first, in its middle.
    """
    rest = (_left(snapshot, overheads), *_counts(snapshot))
    head = _SEPARATOR.join((*_what(snapshot, name=""), rest[0]))
    name = "" if snapshot.trial is None else snapshot.specs[snapshot.trial].name
    name = shorten_middle(name, max(_LEAST_NAME, first - len(head)))
    lines = [""]
    for part in (*_what(snapshot, name=name), *rest):
        longer = f"{lines[-1]}{_SEPARATOR}{part}" if lines[-1] else part
        if len(longer) <= (first if len(lines) == 1 else width):
            lines[-1] = longer
        elif lines[-1]:
            lines.append(shorten_middle(part, width))
        else:
            lines[-1] = shorten_middle(part, first)
    return lines


def shorten_middle(text: str, length: int) -> str:
    """Leave out the middle of what is longer: names of trials differ at their ends."""
    if len(text) <= length:
        return text
    tail = max(0, length - 1) // 2
    return f"{text[: length - 1 - tail]}\N{HORIZONTAL ELLIPSIS}{text[len(text) - tail :]}"


def _what(snapshot: Snapshot, name: str | None = None) -> tuple[str, ...]:
    """Return which trial runs, under another name if one is given, and what happens in it."""
    if snapshot.trial is None:
        return (activity(snapshot),)
    name = snapshot.specs[snapshot.trial].name if name is None else name
    return f"trial {snapshot.trial + 1}/{len(snapshot.specs)} {name}", activity(snapshot)


def _left(snapshot: Snapshot, overheads: Overheads) -> str:
    return f"about {duration(left_s(snapshot, overheads))} left"


def _counts(snapshot: Snapshot) -> tuple[str, ...]:
    """Format what was counted in this trial; before there is a phase, how long it waits for its target."""
    if snapshot.trial is None:
        return ()
    if snapshot.phase is None and snapshot.holder:
        waited_s = (snapshot.now_ns - snapshot.trial_seen_ns) / 1e9
        return (f"at most {duration(max(0.0, LEASE_WAIT_S - waited_s))} more",)
    spec = snapshot.specs[snapshot.trial]
    if traits_of(spec.plan.experiment).windows and any(phase.invoked for phase in spec.offered.phases):
        return ()  # short invocations give no sign of life, so that only some of them were counted
    found = [f"this trial: {_events(snapshot, spec)}"]
    if snapshot.sent:
        found.append(digits.counted(snapshot.errors, "error"))
    if snapshot.rate_per_s is not None and _is_offered(snapshot):
        found.append(f"{rounded(snapshot.rate_per_s, 2)}/s")
    if snapshot.service_times:
        named = traits_of(spec.plan.experiment).timed
        quantiles = ((name, (histogram_quantile_ns(snapshot.service_times, q) or 0.0) / 1e6) for name, q in _QUANTILES)
        found.append(f"{named} {', '.join(f'{name} {_unsure(value_ms)}' for name, value_ms in quantiles)}")
    return tuple(found)


def _unsure(value_ms: float) -> str:
    """Format a time with the two digits that a histogram has, marked since it has no interval."""
    unit = unit_for(value_ms)
    return f"{UNSURE}{rounded(value_ms * unit.per_ms, 2)} {unit.name}"


def _is_offered(snapshot: Snapshot) -> bool:
    """Return whether load is being offered: between phases, a rate would be that of the one before."""
    if snapshot.trial is None or snapshot.phase is None:
        return False
    since_s = (snapshot.now_ns - snapshot.phase.start_at_ns) / 1e9
    return 0 <= since_s < snapshot.phase.offered_s(snapshot.specs[snapshot.trial].plan.phases[snapshot.phase.index])


def _events(snapshot: Snapshot, spec: TrialSpec) -> str:
    """Format the counts: `sent 200 of 400, received 180`."""
    traits = traits_of(spec.plan.experiment)
    if not traits.windows:
        return f"read {count(snapshot.sent)} of {digits.counted(spec.plan.events, traits.noun)}"
    plan = spec.offered
    if not all(phase.is_open for phase in plan.phases):
        return digits.counted(snapshot.sent, traits.noun)
    about = "about " if plan.arrivals == "poisson" else ""
    about = "up to " if any(phase.until or phase.probe for phase in plan.phases) else about
    sent = f"sent {count(snapshot.sent)} of {about}{count(plan.events)}"
    seen = arrivals(snapshot)
    if seen is None:
        return sent
    received = f"received {count(seen.received)}"
    share = plan.record.matching_share
    return f"{sent}, {received}" if share == 1 else f"{sent}, {received} (the filter lets {share:g} pass)"
