"""What a report says of a measured function: how long it ran, when it was done, and what came of its failures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench import digits
from stepbench.report import document as doc
from stepbench.report import numbers
from stepbench.report.figures import Drawing
from stepbench.report.run import columns, window_rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepbench.contracts.chart_data import HandlerPoint
    from stepbench.contracts.invocations import Redelivered
    from stepbench.contracts.measures import HandlerResult
    from stepbench.contracts.result import RunSummary, TrialSummary
    from stepbench.report.run import Row, RunView, TrialView, WindowRow

QUESTION = "When is it done?"
_MAX_POINTS = 400
_QUANTILES = ("p50", "p90", "p99")
_TRIES = {2: "the second try", 3: "the third try"}
_COPY = (
    "Measured is a copy of the function, made for the trial and deleted after it; the function itself was not touched. "
    "The copy does what the original does: what that writes, sends or mails, the copy has written, sent and mailed."
)

_NO_METRICS = ": emulators have no metrics of Lambda"


def describe_handler(row: WindowRow) -> str:
    """Describe when the function ran and was done, and what failed; empty where nothing was measured of one."""
    found = row.window.handler
    if found is None or not row.window.latency_ms.n:
        return ""
    ran, done = row.window.latency_ms.p50, found.to_processed_ms.p50
    since = f"{_time(ran.value)} after the write, and had processed it {_time(done.value)} after the write was due"
    parts = [f"The function ran p50 {since}"]
    if found.failed_once:
        events = digits.counted(found.arrived, "event")
        failed = f"{digits.count(found.failed_once)} of {events} failed in the handler at least once"
        parts.append(", ".join((failed, *map(describe_try, found.redelivered))))
    else:
        parts.append("no event failed in the handler")
    if found.failed_in_handler:
        given_up = f", {digits.count(found.given_up)} of them given up by Lambda" if found.given_up else ""
        parts.append(f"{digits.count(found.failed_in_handler)} had not been processed by the drain limit{given_up}")
    if found.processed_twice:
        parts.append(f"processed again: {digits.counted(found.processed_twice, 'time')}")
    return f"{'; '.join(parts)}."


def describe_try(each: Redelivered) -> str:
    """Describe what was processed at a later try: `14 were processed at the second try after 61.0 s`."""
    verb = "was" if each.events == 1 else "were"
    after, most = (f"{digits.rounded(seconds)} s" for seconds in (each.after_s_p50, each.after_s_max))
    span = after if after == most else f"{after} (median), {most} at most"
    return f"{digits.count(each.events)} {verb} processed at {_try(each)} after {span}"


def _try(each: Redelivered) -> str:
    return _TRIES.get(each.at_try, f"try {each.at_try}")


def _time(value_ms: float | None) -> str:
    return "more than the drain limit" if value_ms is None else digits.latency(value_ms)


def handler_tables(summary: RunSummary) -> tuple[doc.Table, ...]:
    """Return the tables of all windows with a measured function: times, and counts; none without any."""
    rows = [row for row in window_rows(summary.trials) if row.window.handler is not None]
    if not rows:
        return ()
    caption = (
        "Handler time (from when the handler was called, just behind t4, to t5, its return or error) of the "
        f"invocation that brought an event first, and time to processed ({doc.minus('t5', 't0')}, from when the write "
        f"was due to the end of the first invocation that processed it), with {doc.NINETY_FIVE} intervals."
    )
    note = "An invocation that never ended counts as longer than the drain limit."
    heads = (
        *(doc.Column(f"Handler time, {name}", style=_more(name), short=f"handler {name}") for name in _QUANTILES),
        *(doc.Column(f"To processed, {name}", style=_more(name), short=f"processed {name}") for name in _QUANTILES),
    )
    whose = doc.columns("Function", *heads, short="trial")
    times = doc.Table("handler-times", caption, whose, doc.body(map(_times, rows)), "cards", phone=True, note=note)
    caption = "What became of the events in the function, and of its invocations, repeats included."
    note = (
        "Tried again: processed at a later try than the first. Never processed: arrived, and by the drain limit no "
        "invocation had processed it. Given up: of these, by Lambda, into its on-failure queue. Again: processings "
        "after an event's first. At once: invocations that ran at one moment, at most."
    )
    heads = (
        *map(doc.Column, ("Tried again", "Never processed")),
        *map(doc.more, ("Given up", "Again", "Invocations", "Cold starts", "At once")),
        doc.words("Failed invocations"),
    )
    whose = doc.columns("Function", *heads, short="trial")
    counts = doc.Table("handler-counts", caption, whose, doc.body(map(_counts, rows)), "cards", phone=True, note=note)
    return times, counts


def _more(name: str) -> str:
    return "more" if name == "p90" else ""


def _times(row: WindowRow) -> doc.Row:
    found = row.window.handler
    cells = (*_estimates("handler_ms", found), *_estimates("to_processed_ms", found)) if found else ()
    return doc.Row(_head(row), cells, doc.of_window(row))


def _counts(row: WindowRow) -> doc.Row:
    found = row.window.handler
    if found is None:
        return doc.Row(_head(row), ())
    again = sum(each.events for each in found.redelivered)
    cells = (
        numbers.value("redelivered", again, (digits.count(again), doc.Span(_tries(found), "note"))),
        numbers.harm("failed_in_handler", found.failed_in_handler),
        numbers.harm("given_up", found.given_up),
        numbers.harm("processed_twice", found.processed_twice),
        numbers.number("invocations", found.invocations),
        _cold_starts(found),
        numbers.number("most_at_once", found.most_at_once),
        _errors(found),
    )
    return doc.Row(_head(row), cells, doc.of_window(row))


def _head(row: WindowRow) -> doc.Cell:
    return doc.head(row.label, row.trial, row.trial.function)._replace(line=row.label)


def _estimates(measure: str, found: HandlerResult) -> Iterator[doc.Cell]:
    times = getattr(found, measure)
    return (numbers.estimate(f"{measure}.{name}", getattr(times, name)) for name in _QUANTILES)


def _errors(found: HandlerResult) -> doc.Cell:
    counts = [f"{name} {digits.count(number)}" for name, number in found.errors.items()]
    counts += [f"partly failed {digits.count(found.partly_failed)}"] if found.partly_failed else []
    data: doc.Data = {"metric": "handler_errors", "value": sum(found.errors.values())}
    return doc.Cell(", ".join(counts) or "none", data, "bad" if counts else "")


def _tries(found: HandlerResult) -> str:
    return f" at {', '.join(map(_try, found.redelivered))}" if found.redelivered else ""


def _cold_starts(found: HandlerResult) -> doc.Cell:
    init = found.init_ms.p50.value if found.init_ms else None
    note = f" init p50 {digits.latency(init)}" if init is not None else ""
    text = (digits.count(found.cold_starts), doc.Span(note, "note"))
    return numbers.value("cold_starts", found.cold_starts, text, init_ms_p50=init)


def handler_sections(run: RunView) -> Iterator[doc.Section]:
    """Yield the section on measured functions, if there are any."""
    tables = handler_tables(run.summary)
    if not tables:
        return
    drawn = [view for view in run.triggered if view.result.handler]
    figures = tuple(
        doc.Fold(f"{view.label}: invocations over time", (_figure(view),), plain=place == 0)
        for place, view in enumerate(drawn)
    )
    metrics = doc.Sentences(tuple(_metrics(view) for view in run.triggered if view.summary.function))
    copied = doc.Sentence(_COPY, "note")
    yield doc.Section("handler", QUESTION, (*tables, metrics, copied, *figures), link="Done")


def describe_metrics(trial: TrialSummary) -> str:
    """Describe what CloudWatch had of the trial's copy, and up to when; or why there is nothing."""
    found, numbers_of = trial.function_metrics, "Throttles, and how long events waited for the function"
    if found is None:
        return f"{numbers_of}, were not measured here{_NO_METRICS if trial.emulated else ''}."
    if found.reason:
        return f"{numbers_of}, could not be read: {found.reason.rstrip('.')}."
    if not found.until:
        return f"{numbers_of}: CloudWatch had no value yet when the trial ended."
    parts = [digits.counted(found.throttles, "throttle")] if found.throttles is not None else []
    parts += [f"{digits.counted(found.dropped, 'event')} dropped"] if found.dropped is not None else []
    parts += (
        [f"the oldest event {digits.latency(found.oldest_event_ms)} old"] if found.oldest_event_ms is not None else []
    )
    parts += [f"{digits.count(found.most_at_once)} at once at most"] if found.most_at_once is not None else []
    text = f"CloudWatch, up to {digits.moment(found.until)}: {', '.join(parts)}."
    if (seen := found.invocations or 0) < found.recorded:
        lacking = f"{digits.count(seen)} of {digits.counted(found.recorded, 'invocation')}"
        text += f" It had {lacking} by then: what happened later is not in these numbers."
    return text


def _metrics(view: TrialView) -> doc.Sentence:
    found = view.summary.function_metrics
    data: doc.Data = {"metric": "throttles", "value": found.throttles} if found and found.until else {}
    return doc.named(view.label, view.summary, describe_metrics(view.summary), data)


def _figure(view: TrialView) -> doc.Figure:
    points, bin_s = _binned(view.result.handler)
    spans: list[Row] = [
        (span.name, "measured" if span.measured else "not measured", span.from_s, span.to_s)
        for span in view.result.phases
    ]
    data = {
        "points": columns(("second", "running", "began", "failed"), points),
        "phases": columns(("phase", "kind", "from_s", "to_s"), spans),
    }
    top = 1.25 * max(point.at_once for point in view.result.handler) or 1.0
    described = f"Invocations of the measured function of {view.label} that ran at once, over time"
    caption = (
        f"{view.label}: how many invocations of the function ran at once, at most, in each "
        f"{'second' if bin_s == 1 else f'{bin_s} seconds'}. What comes after the phases are deliveries that were "
        "waiting, and tries that were made again."
    )
    drawing = Drawing(f"handler-{view.anchor}", "concurrency", data, {"top": top})
    return doc.Figure((doc.Chart(drawing, described),), caption, "zooms")


def _binned(points: Sequence[HandlerPoint]) -> tuple[list[Row], int]:
    """Return at most some hundred points, and how many seconds each stands for: the most at once, the others' sums."""
    first, last = int(points[0].second), int(points[-1].second)
    bin_s = max(1, -(-(last - first + 1) // _MAX_POINTS))
    bins: dict[int, list[HandlerPoint]] = {}
    for point in points:
        bins.setdefault((int(point.second) - first) // bin_s, []).append(point)
    rows: list[Row] = [
        (
            first + place * bin_s,
            max(each.at_once for each in held),
            sum(each.began for each in held),
            sum(each.failed for each in held),
        )
        for place, held in bins.items()
    ]
    return rows, bin_s
