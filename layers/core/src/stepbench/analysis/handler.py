"""What a measured function did: how long it ran, when it was done with each event, and what came of its failures."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stepbench.analysis.latency import NS_PER_MS, Elapsed, as_ms, collect, handler_time, to_processed
from stepbench.analysis.windows import NS_PER_S
from stepbench.contracts.chart_data import HandlerPoint
from stepbench.contracts.invocations import Redelivered
from stepbench.contracts.measures import HandlerResult
from stepbench.stats.estimates import Sample
from stepbench.stats.quantiles import quantile

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepbench.analysis.evidence import Evidence
    from stepbench.analysis.windows import MeasuredWindow
    from stepbench.contracts.measures import Latency
    from stepbench.records.formats.function_runs import RunColumns
    from stepbench.records.formats.t4_items import ItemColumns
    from stepbench.records.join.joined import Joined
    from stepbench.records.join.processing import Processing

_INIT_PURPOSE = 40
FURTHER_APART = (
    "Offer fewer a second, so that each write comes 25 ms or more after the function began with the one before, or let "
    'the function print its times itself (target.function.times: "own").'
)
"""What to do about events whose invocations cannot be distinguished by their order."""
NEVER_ENDED = "never ended"
"""Among errors, what they are called that ended without a word: killed at their timeout, or with their sandbox."""


class Failures(NamedTuple):
    """
    What went wrong in a measured function with the events of the measured phases, each event and invocation once.

    errors, partly_failed, failed_once: as in `HandlerResult`.
    """

    errors: dict[str, int]
    partly_failed: int
    failed_once: int


def handler_result(evidence: Evidence, window: MeasuredWindow) -> HandlerResult | None:
    """Return what the measured function did with the window's events; None where there is none."""
    joined, items = evidence.joined, evidence.records.items
    events = joined.of_phase(window.phase)
    if events.processing is None:
        return None
    own = window.scheduled - events.first
    arrived, processed, found = events.arrived[own], events.processed[own], events.processing
    rows, failed = _invocations(events, found, window.scheduled), events.failed_in_handler(evidence.cut_off_ns)[own]
    runs = items.runs
    return HandlerResult(
        handler_ms=_handler_latency(events, window),
        to_processed_ms=window.latency(to_processed),
        arrived=int(np.count_nonzero(arrived)),
        processed=int(np.count_nonzero(processed)),
        processed_twice=int(found.again[own].sum()),
        failed_once=int(np.count_nonzero(found.failed[own])),
        given_up=int(np.count_nonzero(np.isin(window.scheduled[~processed], given_up(evidence)))),
        cut_off=int(np.count_nonzero(arrived & ~processed & ~failed)),
        redelivered=_redelivered(events, own[processed]),
        invocations=rows.size,
        errors={} if runs is None else _count_errors(runs, rows),
        partly_failed=0 if runs is None else _count_partly_failed(items, runs, rows),
        never_ended=0 if runs is None else int(np.count_nonzero(runs.t5_ns[rows] == 0)),
        cold_starts=int(np.count_nonzero(items.cold[rows])),
        init_ms=None if runs is None else _init_latency(evidence, window, runs, rows[items.cold[rows]]),
        most_at_once=0 if runs is None else int(_at_once(*_spans(runs, rows))[1].max(initial=0)),
    )


def measured_failures(evidence: Evidence) -> Failures:
    """Return what went wrong in the measured phases, whose windows may overlap or leave something out."""
    items, rows, failed_once = evidence.records.items, [np.empty(0, np.int64)], 0
    for phase, planned in enumerate(evidence.spec.offered.phases):
        events = evidence.joined.of_phase(phase)
        if not planned.measured or events.processing is None:
            continue
        scheduled = np.arange(events.first, events.first + events.size)
        rows.append(_invocations(events, events.processing, scheduled))
        failed_once += int(np.count_nonzero(events.processing.failed))
    runs, own = items.runs, np.unique(np.concatenate(rows))
    if runs is None:
        return Failures({}, 0, failed_once)
    return Failures(_count_errors(runs, own), _count_partly_failed(items, runs, own), failed_once)


def given_up(evidence: Evidence) -> NDArray[np.int64]:
    """Return the numbers of the events that Lambda put into the on-failure queue, ascending."""
    entries = [entry for each in evidence.refused.deliveries for entry in each.entries()]
    return evidence.joined.grid.find(entries) if entries else np.empty(0, np.int64)


def handler_points(evidence: Evidence) -> tuple[HandlerPoint, ...]:
    """Return the measured function's invocations over time: a point for each second in which their number changed."""
    runs, items, grid = evidence.records.items.runs, evidence.records.items, evidence.joined.grid
    rows = np.empty(0, np.int64) if runs is None else np.nonzero(runs.t4_ns)[0]
    if runs is None or not rows.size or not grid.events:
        return ()
    begin_ns, end_ns = _spans(runs, rows)
    zero_ns = min(int(part.t0_ns.min()) for part in evidence.joined.parts())
    at_ns, running = _at_once(begin_ns, end_ns)
    changed, began = ((each_ns - zero_ns) // NS_PER_S for each_ns in (at_ns, begin_ns))
    seconds = np.union1d(changed, changed + 1)
    before = np.searchsorted(changed, seconds) - 1
    at_once = np.where(before < 0, 0, running[before])  # what runs on from the second before
    np.maximum.at(at_once, np.searchsorted(seconds, changed), running)
    failed = began[runs.failed_from[rows] < items.batch[rows]]
    columns = (seconds, at_once, *(_count_in(seconds, each) for each in (began, failed)))
    return tuple(
        HandlerPoint(second=second, at_once=most, began=new, failed=bad)
        for second, most, new, bad in zip(*(column.tolist() for column in columns), strict=True)
    )


def _count_in(seconds: NDArray[np.int64], which: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.bincount(np.searchsorted(seconds, which), minlength=seconds.size)


def _invocations(events: Joined, found: Processing, scheduled: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the rows of the items that delivered any of these events, each once."""
    own = scheduled - events.first
    first = events.item[own[events.first_arrivals.has[own]]]
    more = found.repeated_item[np.isin(found.repeated_event, scheduled)]
    return np.unique(np.concatenate([first.astype(np.int64), more]))


def _handler_latency(events: Joined, window: MeasuredWindow) -> Latency:
    """Return the handler time of the events that arrived, paired or not: what waits for the function is not in it."""
    own = window.scheduled - events.first
    arrived = (events.acknowledged & events.arrived)[own]
    chosen, (times_ns, has) = own[arrived], handler_time(events)
    ended = Elapsed(times_ns[chosen], None if has is None else has[chosen])
    values_ms = as_ms(collect(lambda _: ended, [(events, np.ones(chosen.size, np.bool_))], chosen.size))
    return window.sample(values_ms, events=window.scheduled[arrived], queued=False).latency()


def _redelivered(events: Joined, processed: NDArray[np.int64]) -> tuple[Redelivered, ...]:
    """Return what was processed at the second try, the third, and so on; `processed` are places among the events."""
    found = events.processing
    if found is None:
        return ()
    before = found.tries_before[processed]
    later = processed[before > 0]
    tries = found.tries_before[later].astype(np.int64) + 1
    after_ns = found.processed_ns[later].astype(np.int64) - events.first_arrivals.response_ns[later]
    result = []
    for at_try in np.unique(tries).tolist():
        after_s = np.sort(after_ns[tries == at_try]) / NS_PER_S
        p50, most = quantile(after_s, 0.5), float(after_s[-1])
        result.append(Redelivered(at_try=at_try, events=after_s.size, after_s_p50=p50, after_s_max=most))
    return tuple(result)


def _count_errors(runs: RunColumns, rows: NDArray[np.int64]) -> dict[str, int]:
    names = {number: name for name, number in runs.errors.items()}
    counts = Counter(names[number] for number in runs.error[rows].tolist() if number)
    if silent := int(np.count_nonzero((runs.error[rows] == 0) & (runs.t5_ns[rows] == 0))):
        counts[NEVER_ENDED] += silent
    return dict(counts.most_common())


def _count_partly_failed(items: ItemColumns, runs: RunColumns, rows: NDArray[np.int64]) -> int:
    ended_well = (runs.error[rows] == 0) & (runs.t5_ns[rows] > 0)
    return int(np.count_nonzero(ended_well & (runs.failed_from[rows] < items.batch[rows])))


def _init_latency(
    evidence: Evidence, window: MeasuredWindow, runs: RunColumns, cold: NDArray[np.int64]
) -> Latency | None:
    if not cold.size:
        return None
    order = cold[np.argsort(runs.t4_ns[cold], kind="stable")]
    plan = evidence.spec.offered
    rng = np.random.default_rng((plan.seed, window.phase, _INIT_PURPOSE))
    at_s = (runs.t4_ns[order] - window.start_ns) / NS_PER_S
    return Sample(runs.init_ns[order] / NS_PER_MS, at_s, window.length_s, plan.drain_limit_s, rng).latency()


def _spans(runs: RunColumns, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return when these invocations began and ended; one that was not seen to end counts where it began."""
    begin_ns = runs.t4_ns[rows]
    return begin_ns, np.maximum(runs.t5_ns[rows], begin_ns)


def _at_once(begin_ns: NDArray[np.int64], end_ns: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return when the number of running invocations changed, ascending, and what it was from then on."""
    at_ns = np.concatenate([begin_ns, end_ns])
    change = np.repeat(np.array([1, -1]), [begin_ns.size, end_ns.size])
    order = np.lexsort((-change, at_ns))  # one that ends as another begins still ran beside it
    return at_ns[order], np.cumsum(change[order])
