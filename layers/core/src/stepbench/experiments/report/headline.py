"""
The short answer in plain text: one row a window for a terminal's table, one line a trial, one sentence for people.

Pure, and cheap to import: the command line and the state machine's output use it as well as the page.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING

from stepbench import digits
from stepbench.contracts.measure import EXECUTION_LATENCY, HEADLINE_QUANTILES
from stepbench.experiments.dataflow.report.words import describe_objects, first_media
from stepbench.experiments.operations.report import describe_operations, format_throughput
from stepbench.report.labels import WindowRow, describe_latency, trial_labels, window_labels, window_rows
from stepbench.report.thresholds import describe_missed, describe_undecided
from stepbench.report.words import format_caveat_kinds, state_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.contracts.measure import ExperimentName
    from stepbench.contracts.measures import WindowResult
    from stepbench.contracts.result import RunSummary, TrialSummary
    from stepbench.contracts.search import FoundRate, StoppedPhase, Utilisation

BARE_TRIGGER = "bare trigger p50"
"""Of an invocation without a store (etcd: a put and its watch), before the trials; no lower bound of their latency."""
HEADINGS = ("trial", "provider", "n", *HEADLINE_QUANTILES, "lost", "throughput", BARE_TRIGGER, "caveats")
_OF_EXPERIMENTS = {"lost": {"trigger", "dataflow"}, "throughput": {"operations"}}
_WINDOWS_PER_LINE = 3


@dataclass(frozen=True)
class HeadlineRow:
    """It is one line of the terminal's table, ready to print. A trial without windows has one row too."""

    trial: str
    provider: str
    n: str
    p50: str
    p90: str
    p95: str
    p99: str
    lost: str
    throughput: str
    bare_trigger: str
    caveats: str
    experiment: ExperimentName

    def cells(self) -> dict[str, str]:
        """Return the cells by `HEADINGS`."""
        return dict(zip(HEADINGS, astuple(self), strict=False))


def headline_rows(summary: RunSummary) -> tuple[HeadlineRow, ...]:
    """Return all rows of the headline table, in the order of the trials."""
    windows = window_rows(summary.trials)
    rows: list[HeadlineRow] = []
    for trial, label in zip(summary.trials, trial_labels(summary.trials), strict=True):
        own = [row for row in windows if row.trial is trial]
        rows.extend(_measured(row) for row in own)
        if not own:
            rows.append(_unmeasured(trial, label))
    return tuple(rows)


def headline_tables(summary: RunSummary) -> Iterator[tuple[tuple[str, ...], tuple[HeadlineRow, ...]]]:
    """Yield headings and rows of each experiment: operations have a throughput, and nothing that could be lost."""
    every = headline_rows(summary)
    for experiment in ("trigger", "operations", "dataflow"):
        rows = tuple(row for row in every if row.experiment == experiment)
        missing = {heading for heading, of in _OF_EXPERIMENTS.items() if experiment not in of}
        if all(row.bare_trigger == digits.NONE for row in rows):
            missing.add(BARE_TRIGGER)
        if rows:
            yield tuple(heading for heading in HEADINGS if heading not in missing), rows


def headline_lines(summary: RunSummary) -> tuple[str, ...]:
    """Return which thresholds were missed or not decided, and one line a trial: name, n, p50 with interval, lost."""
    labels = trial_labels(summary.trials)
    lines = tuple(_line(trial, label) for trial, label in zip(summary.trials, labels, strict=True))
    return (*filter(None, (describe_missed(summary), describe_undecided(summary))), *describe_media(summary), *lines)


def describe_media(summary: RunSummary) -> tuple[str, ...]:
    """Return which store is the best for each DAG, and what became of the objects if not all is well."""
    trials = zip(summary.trials, trial_labels(summary.trials), strict=True)
    broken = tuple(
        f"{label}: {describe_objects(trial.dataflow.objects)}"
        for trial, label in trials
        if trial.dataflow is not None and not trial.dataflow.objects.complete
    )
    return (*broken, *(answer.text.rstrip(".") for answer in first_media(summary.media)))


def describe_status(summary: RunSummary) -> str:
    """Return how the run ended, and which thresholds it missed, or was too short for."""
    return "; ".join(filter(None, (summary.status, describe_missed(summary), describe_undecided(summary))))


def describe_window(row: WindowRow) -> str:
    """Answer for one window: how long it took, and whether it always came to an end."""
    if row.window.operations is not None:
        return describe_operations(row)
    if row.trial.experiment == "dataflow":
        return f"{describe_latency(row.window.latency_ms, 'p90')}; {_completed(row.window)}."
    accounting = row.trial.accounting
    kind = "matching" if accounting and accounting.held_back + accounting.leaked else "acknowledged"
    one = len(row.trial.windows) == 1  # the number is the trial's
    held_back = (
        f", {digits.count(accounting.held_back)} held back by the filter"
        if one and accounting and accounting.held_back
        else ""
    )
    text = f"{describe_latency(row.window.latency_ms, 'p90')}; {_arrivals(row.window, kind)}{held_back}."
    return " ".join((text, *(phase.text for phase in row.trial.stopped if phase.phase == row.window.phase)))


def describe_search(found: FoundRate) -> str:
    """Describe which utilisation was wanted, what was found or why not, and how busy the load made the store."""
    outcome = found.text if found.rate_per_s is not None else f"no rate was found: {found.text}"
    held = "; ".join(
        f"phase {phase.phase} was then offered {digits.rate(phase.offered_per_s)}/s, of which "
        f"{digits.rate(phase.achieved_per_s)}/s were acknowledged, and was {_describe_utilisation(phase)}"
        for phase in found.phases
        if not phase.probe
    )
    return f"{digits.percent(found.wanted)} busy was wanted: {outcome}." + (
        f" {held[:1].upper()}{held[1:]}." if held else ""
    )


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
        lost=_lost(row),
        throughput=format_throughput(row.window.throughput_per_s),
        bare_trigger=str(digits.shown(trial.floor_ms.p50)) if trial.floor_ms else digits.NONE,
        caveats=format_caveat_kinds(row.caveats),
        experiment=trial.experiment,
    )


def _unmeasured(trial: TrialSummary, label: str) -> HeadlineRow:
    lost = digits.count(trial.accounting.lost if trial.accounting and trial.accounting.awaited else None)
    reason = trial.failure.error if trial.failure else state_of(trial)
    blank = digits.NONE
    return HeadlineRow(
        f"{label} ({state_of(trial)})", _provider(trial), "0", reason, blank, blank, blank, lost, blank, blank,
        format_caveat_kinds(trial.caveats), trial.experiment,
    )  # fmt: skip


def _lost(row: WindowRow) -> str:
    """Format the window's lost events; what a filter held back is known of the trial only."""
    accounting = row.trial.accounting
    alone = len(row.trial.windows) == 1 and accounting and accounting.held_back
    return digits.count(row.lost) + (
        f" ({digits.count(accounting.held_back)} held back)" if accounting and alone else ""
    )


def _provider(trial: TrialSummary) -> str:
    return f"{trial.sides} (emulated)" if trial.emulated else trial.sides


def _line(trial: TrialSummary, label: str) -> str:
    state = state_of(trial)
    head = label if state == "complete" else f"{label} ({state})"
    if trial.failure:
        head += f": {trial.failure.error}"
    named = tuple(zip(trial.windows, window_labels(trial), strict=True))
    p50 = f"{EXECUTION_LATENCY.name} p50" if trial.dataflow is not None else "p50"
    parts = [_window(window, name if len(named) > 1 else "", p50) for window, name in named[:_WINDOWS_PER_LINE]]
    if len(named) > _WINDOWS_PER_LINE:
        parts.append(f"and {digits.counted(len(named) - _WINDOWS_PER_LINE, 'more window')}")
    parts.extend(map(_ending, trial.stopped[:_WINDOWS_PER_LINE]))
    if trial.transfers is not None:
        parts.extend(answer.rstrip(".") for answer in trial.transfers.answers[:1])
    if trial.accounting and trial.accounting.awaited and trial.dataflow is None:
        parts.append(f"lost {digits.count(trial.accounting.lost)}")
        if trial.accounting.held_back:
            parts.append(f"{digits.count(trial.accounting.held_back)} held back by the filter")
    if trial.dataflow is not None:
        parts.append(f"{digits.count(trial.dataflow.executions.completed)} completed")
    if trial.emulated and (named or trial.transfers):
        parts.append("emulated")
    return f"{head}: {', '.join(parts)}" if parts else head


def _window(window: WindowResult, name: str, p50: str) -> str:
    text = f"n {digits.count(window.n)}, {p50} {digits.shown(window.latency_ms.p50)}"
    if window.latency_ms.p50.fell_behind:
        text += f" ({window.latency_ms.p50.reason})"
    if window.operations is not None:
        text += f", {format_throughput(window.throughput_per_s)}"
    return f"{name}: {text}" if name else text


def _ending(phase: StoppedPhase) -> str:
    width = phase.final if phase.final is not None else phase.reached
    known = "not known" if width is None else f"known to {100 * width:.2g} %"
    why = phase.reason.replace("_", " ")
    return f"{phase.phase} ended after {phase.stopped_at_s:.0f} s ({why}): {phase.metric} {known}"


def _completed(window: WindowResult) -> str:
    missing, executions = window.latency_ms.missing, digits.counted(window.n, "execution")
    return f"{digits.count(missing)} of {executions} did not complete" if missing else f"all of {executions} completed"


def _arrivals(window: WindowResult, kind: str) -> str:
    """Describe arrivals of events of a `kind`: with a filter not all that were acknowledged are among them."""
    missing, n = window.latency_ms.missing, window.n
    if n == 0:
        return f"no {kind} event was acknowledged" if kind == "matching" else "no event was acknowledged"
    if missing == 0:
        return f"the one {kind} event arrived" if n == 1 else f"all {digits.count(n)} {kind} events arrived"
    return f"{digits.count(missing)} of {digits.counted(n, f'{kind} event')} had not arrived by the drain limit"


def _describe_utilisation(phase: Utilisation) -> str:
    """Format `31 % busy`, or that it is not known."""
    return "busy to an unknown degree" if phase.utilisation is None else f"{digits.percent(phase.utilisation)} busy"
