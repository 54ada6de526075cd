"""
The short answer in plain text: one row a window for a terminal's table, one line a trial, one sentence for people.

Pure, and cheap to import: the command line and the state machine's output use it as well as the page.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from stepbench.report import digits
from stepbench.report.labels import WindowRow, trial_labels, window_labels, window_rows
from stepbench.report.operations import operation_sentence, per_minute

if TYPE_CHECKING:
    from stepbench.contracts.measures import Estimate, Latency, WindowResult
    from stepbench.contracts.result import Caveat, RunSummary, StoppedPhase, TrialSummary

State = Literal["complete", "incomplete", "failed", "skipped"]
HEADINGS = ("trial", "provider", "n", "p50", "p90", "p95", "p99", "lost", "floor p50", "caveats")
_WINDOWS_PER_LINE = 3
_CAVEAT_WORDS = {
    "t4_in_fallback": "t4 in fallback",
    "clock_unmeasured": "clock unmeasured",
    "saturated_generator": "generator saturated",
    "batching_window_ignored": "batching window ignored",
}


@dataclass(frozen=True)
class HeadlineRow:
    """One line of the terminal's table; every field is ready to print. A trial without windows has one row too."""

    trial: str
    provider: str
    n: str
    p50: str
    p90: str
    p95: str
    p99: str
    lost: str
    floor: str
    caveats: str

    def cells(self) -> tuple[str, ...]:
        """In the order of `HEADINGS`."""
        return (
            self.trial, self.provider, self.n, self.p50, self.p90, self.p95, self.p99, self.lost, self.floor,
            self.caveats,
        )  # fmt: skip


def state_of(trial: TrialSummary) -> State:
    """`failed`: nothing was measured. `incomplete`: some of it was. `skipped`: it was never meant to run here."""
    if any(caveat.kind == "skipped" for caveat in trial.caveats):
        return "skipped"
    if not trial.failure and not trial.incomplete:
        return "complete"
    return "incomplete" if any(window.n for window in trial.windows) else "failed"


def caveat_words(caveat: Caveat) -> str:
    """A caveat's kind in a word or two."""
    return _CAVEAT_WORDS.get(caveat.kind, caveat.kind.replace("_", " "))


def caveat_list(trial: TrialSummary) -> str:
    """The kinds of all caveats, each once."""
    return ", ".join(dict.fromkeys(caveat_words(caveat) for caveat in trial.caveats))


def headline_rows(summary: RunSummary) -> tuple[HeadlineRow, ...]:
    """All rows of the headline table, in the order of the trials."""
    windows = window_rows(summary.trials)
    rows: list[HeadlineRow] = []
    for trial, label in zip(summary.trials, trial_labels(summary.trials), strict=True):
        own = [row for row in windows if row.trial is trial]
        rows.extend(_measured(row) for row in own)
        if not own:
            rows.append(_unmeasured(trial, label))
    return tuple(rows)


def headline_lines(summary: RunSummary) -> tuple[str, ...]:
    """One line a trial: name, n, p50 with its interval, lost."""
    labels = trial_labels(summary.trials)
    return tuple(_line(trial, label) for trial, label in zip(summary.trials, labels, strict=True))


def sentence(row: WindowRow) -> str:
    """The answer for one window: how long it took, and whether it always came to an end."""
    if row.window.operations is not None:
        return operation_sentence(row)
    books = row.trial.accounting
    kind = "matching" if books and books.held_back + books.leaked else "acknowledged"
    one = len(row.trial.windows) == 1  # the number is the trial's
    held_back = (
        f", {digits.count(books.held_back)} held back by the filter" if one and books and books.held_back else ""
    )
    text = f"{_times(row.window.latency_ms)}; {_arrivals(row.window, kind)}{held_back}."
    return " ".join((text, *(phase.text for phase in row.trial.stopped if phase.phase == row.window.phase)))


def verdict(trial: TrialSummary) -> str:
    """What became of a trial that did not end well, in one sentence without its error."""
    words = {
        "complete": "Complete.",
        "incomplete": "Incomplete: what was measured is shown below, and marked.",
        "failed": "Failed before anything was measured.",
        "skipped": "Skipped: not run here, and not replaced by anything.",
    }
    return words[state_of(trial)]


def _measured(row: WindowRow) -> HeadlineRow:
    trial, times = row.trial, row.window.latency_ms
    return HeadlineRow(
        trial=row.label if state_of(trial) == "complete" else f"{row.label} ({state_of(trial)})",
        provider=_provider(trial),
        n=digits.count(row.window.n),
        p50=str(digits.shown(times.p50)),
        p90=str(digits.shown(times.p90)),
        p95=str(digits.shown(times.p95)),
        p99=str(digits.shown(times.p99)),
        lost=_lost(trial),
        floor=str(digits.shown(trial.floor_ms.p50)) if trial.floor_ms else digits.NONE,
        caveats=caveat_list(trial),
    )


def _unmeasured(trial: TrialSummary, label: str) -> HeadlineRow:
    lost = _lost(trial)
    reason = trial.failure.error if trial.failure else state_of(trial)
    blank = digits.NONE
    return HeadlineRow(
        f"{label} ({state_of(trial)})", _provider(trial), "0", reason, blank, blank, blank, lost, blank,
        caveat_list(trial),
    )  # fmt: skip


def _lost(trial: TrialSummary) -> str:
    books = trial.accounting
    if books is not None and not books.awaited:
        return digits.NONE
    held_back = f" ({digits.count(books.held_back)} held back)" if books and books.held_back else ""
    return digits.count(books.lost if books else None) + held_back


def _provider(trial: TrialSummary) -> str:
    return f"{trial.provider} (emulated)" if trial.emulated else trial.provider


def _line(trial: TrialSummary, label: str) -> str:
    state = state_of(trial)
    head = label if state == "complete" else f"{label} ({state})"
    if trial.failure:
        head += f": {trial.failure.error}"
    named = tuple(zip(trial.windows, window_labels(trial), strict=True))
    parts = [_window(window, name if len(named) > 1 else "") for window, name in named[:_WINDOWS_PER_LINE]]
    if len(named) > _WINDOWS_PER_LINE:
        parts.append(f"and {len(named) - _WINDOWS_PER_LINE} more windows")
    parts.extend(map(_ending, trial.stopped[:_WINDOWS_PER_LINE]))
    if trial.accounting and trial.accounting.awaited:
        parts.append(f"lost {digits.count(trial.accounting.lost)}")
        if trial.accounting.held_back:
            parts.append(f"{digits.count(trial.accounting.held_back)} held back by the filter")
    if trial.emulated and named:
        parts.append("emulated")
    return f"{head}: {', '.join(parts)}" if parts else head


def _window(window: WindowResult, name: str) -> str:
    text = f"n {digits.count(window.n)}, p50 {digits.shown(window.latency_ms.p50)}"
    if window.operations is not None:
        text += f", {per_minute(window.achieved_per_s)}/min"
    return f"{name}: {text}" if name else text


def _ending(phase: StoppedPhase) -> str:
    width = phase.final if phase.final is not None else phase.reached
    known = "not known" if width is None else f"known to {100 * width:.2g} %"
    why = phase.reason.replace("_", " ")
    return f"{phase.phase} ended after {phase.stopped_at_s:.0f} s ({why}): {phase.metric} {known}"


def _times(times: Latency) -> str:
    if times.p50.value is None:
        return f"No median: {times.p50.reason or 'no events'}"
    text = f"Half of the writes had their function running within {_within(times.p50)}"
    if times.p90.value is None:
        return text
    p90 = digits.shown(times.p90)
    return f"{text}, nine in ten within {p90.value} {p90.unit}"


def _within(estimate: Estimate) -> str:
    shown = digits.shown(estimate)
    interval = shown.interval.strip("[]").replace(", ", " to ")
    return f"{shown.value} {shown.unit} ({interval})" if interval else f"{shown.value} {shown.unit}"


def _arrivals(window: WindowResult, kind: str) -> str:
    """`kind`: what to call the window's events; with a filter not all that were acknowledged are among them."""
    missing, n = window.latency_ms.missing, window.n
    if n == 0:
        return f"no {kind} event was acknowledged" if kind == "matching" else "no event was acknowledged"
    if missing == 0:
        return f"the one {kind} event arrived" if n == 1 else f"all {digits.count(n)} {kind} events arrived"
    return f"{digits.count(missing)} of {digits.count(n)} {kind} events had not arrived by the drain limit"
