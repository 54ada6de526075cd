"""Failed and unknown outcomes: by which errors, when, and what they do to the latencies."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Literal

import numpy as np

from stepbench import digits
from stepbench.analysis.error_words import find_remedies, name_error
from stepbench.analysis.windows import NS_PER_S
from stepbench.contracts.experiment import measure_of
from stepbench.contracts.result import Caveat
from stepbench.model.errors import WRONG_VALUE, most_frequent
from stepbench.model.request import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from stepbench.analysis.evidence import Evidence
    from stepbench.analysis.findings import Findings
    from stepbench.analysis.windows import MeasuredWindow
    from stepbench.records.join.joined import Joined


_NAMED = 3
"""So many errors are named in a caveat; the page has all."""
_OUTAGE_NS, _TIMES_USUAL = NS_PER_S, 10
"""A time without an acknowledgement is worth a sentence from a second on, and from ten times the usual one."""
_CAVEATS: dict[Outcome, tuple[Literal["failed_outcomes", "unknown_outcomes"], str, str]] = {
    Outcome.FAILED: ("failed_outcomes", "failed", ""),
    Outcome.UNKNOWN: ("unknown_outcomes", "got no answer", "Nobody knows whether they happened. "),
}
"""Kind, what is said of their end, and what that means."""


def count_errors(joined: Joined, events: NDArray[np.int64]) -> dict[str, int]:
    """
    Count the errors of failed and unknown events, the most frequent first, and the rest of them as other errors.

    Args:
        joined: the trial's events.
        events: shape (n,), numbers in the grid. One without an error's name counts under its outcome.
    """
    counts: Counter[str] = Counter()
    for outcome in _CAVEATS:
        codes, found = np.unique(joined.error[_of(joined, events, outcome)], return_counts=True)
        for code, count in zip(codes.tolist(), found.tolist(), strict=True):
            counts[joined.errors[code] or outcome.name.lower()] += count
    return most_frequent(counts)


def find_outcome_caveats(evidence: Evidence, findings: Findings) -> Iterator[Caveat]:
    """Report each measured window with failed or unknown outcomes; those outside of all windows in one sentence."""
    windows = findings.measured_windows
    what = "writes" if measure_of(evidence.spec.offered.experiment).arrives else "operations"
    for outcome, (kind, ended, meaning) in _CAVEATS.items():
        for place, window in enumerate(windows):
            events = _of(evidence.joined, window.unacknowledged, outcome)
            if events.size:
                share = f"{digits.count(events.size)} of {digits.count(window.sent)} {what}"
                when, errors = _when(evidence, window.phase, events), count_errors(evidence.joined, events)
                text = f"Window {window.name}: {share} ({digits.percent(events.size / window.sent)}) {ended} {when}: "
                text += f"{name_errors(errors)}. {meaning}{_describe_outage(evidence, window)}"
                text += f"Percentiles are of acknowledged {what} only, so the slowest may be missing."
                yield Caveat(kind=kind, text=text, remedy=_remedy(errors), windows=(place,))
        if outside := _find_outside(evidence, windows, outcome):
            phases = ", ".join(f"{digits.count(events.size)} in phase {phase}" for phase, events in outside.items())
            errors = count_errors(evidence.joined, np.concatenate([*outside.values()]))
            text = f"Outside of the measured windows {what} {ended}: {phases} ({name_errors(errors)}). {meaning}"
            yield Caveat(kind=kind, text=f"{text}They are in no latency.", remedy=_remedy(errors), windows=())


def _when(evidence: Evidence, phase: int, events: NDArray[np.int64]) -> str:
    """Describe when the first and the last of a phase's events were due."""
    due_ns = (int(evidence.joined.grid.due_ns(event, event + 1)[0]) for event in (int(events[0]), int(events[-1])))
    first_s, last_s = (f"{(each_ns - evidence.records.starts_ns[phase]) / NS_PER_S:.1f} s" for each_ns in due_ns)
    return f"{first_s if first_s == last_s else f'between {first_s} and {last_s}'} after its phase began"


def _describe_outage(evidence: Evidence, window: MeasuredWindow) -> str:
    """
    Describe the longest time in a window without an acknowledgement, if it is long; empty otherwise.

    In closed loop a client waits after a failure, so that the share of failures says little of how long they lasted.
    """
    start_ns, end_ns = window.start_ns, window.start_ns + round(window.length_s * NS_PER_S)
    done = [np.array([start_ns, end_ns])]
    for part in evidence.joined.of_phase(window.phase).parts():
        t2_ns = part.t2_ns[part.outcome == Outcome.OK]
        done.append(t2_ns[(t2_ns >= start_ns) & (t2_ns < end_ns)])
    done_ns = np.sort(np.concatenate(done))
    gaps_ns = np.diff(done_ns)
    longest = int(gaps_ns.argmax())
    if gaps_ns[longest] < max(_OUTAGE_NS, _TIMES_USUAL * float(np.median(gaps_ns))):
        return ""
    from_s, to_s = ((int(done_ns[place]) - start_ns) / NS_PER_S for place in (longest, longest + 1))
    share = digits.percent((to_s - from_s) / window.length_s)
    return f"From {from_s:.1f} s to {to_s:.1f} s of the window, {share} of it, nothing was acknowledged. "


def name_errors(errors: dict[str, int]) -> str:
    """Name the most frequent errors, with their counts."""
    named = [f"{name_error(name)} {digits.count(count)}" for name, count in list(errors.items())[:_NAMED]]
    return ", ".join([*named, digits.counted(len(errors) - _NAMED, "other error")] if len(errors) > _NAMED else named)


def _remedy(errors: dict[str, int]) -> str:
    """Return what to do about the errors that are named, and about wrong values in any case."""
    return find_remedies([*list(errors)[:_NAMED], *({WRONG_VALUE} & errors.keys())])


def _find_outside(
    evidence: Evidence, windows: Sequence[MeasuredWindow], outcome: Outcome
) -> dict[str, NDArray[np.int64]]:
    """Find the events with this outcome that are in no measured window, by phase: warm-ups, probes, what settles."""
    found: dict[str, NDArray[np.int64]] = {}
    for number, phase in enumerate(evidence.spec.offered.phases):
        events = evidence.joined.of_phase(number)
        outside = events.outcome == outcome
        for window in windows:
            if window.phase == number:
                outside[window.unacknowledged - events.first] = False
        if outside.any():
            found[phase.name] = np.nonzero(outside)[0] + events.first
    return found


def _of(joined: Joined, events: NDArray[np.int64], outcome: Outcome) -> NDArray[np.int64]:
    """Return the events with this outcome, in their order."""
    chosen: NDArray[np.int64] = events[joined.outcome[events] == outcome]
    return chosen
