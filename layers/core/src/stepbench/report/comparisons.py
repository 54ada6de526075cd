"""Published numbers beside ours, in careful sentences; and triggers' share of an application's time."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from stepbench import digits
from stepbench.contracts.findings import TrialReplication
from stepbench.contracts.published import INVOCATION_METRICS, QUANTILE_METRICS, WRITE_METRICS
from stepbench.report import SHARE_ROW_PX, numbers
from stepbench.report import document as doc
from stepbench.report.figures import Drawing
from stepbench.report.run import columns, short, window_label

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepbench.contracts.across_trials import TriggerShare
    from stepbench.contracts.findings import Replication
    from stepbench.contracts.measures import Estimate
    from stepbench.contracts.result import RunSummary, TrialSummary
    from stepbench.report.run import Row, RunView, TrialView


def describe_origin(trial: TrialSummary, *, aws_emulated: bool) -> str:
    """Describe where our number is from; empty if it is from AWS."""
    if trial.emulated:
        return "an emulator's number, not AWS's"
    return "a number of this machine's, not AWS's" if aws_emulated else ""


def describe_replication(trial: TrialSummary, each: Replication, *, aws_emulated: bool) -> str:
    """Compare the published number with ours (of triggers by both readings), and say where ours is from."""
    window = window_label(trial, each.phase, each.window)
    metric = format_metric(each.metric)
    where = f"{metric} of {window}" if len(trial.windows) > 1 else metric
    over = f" over {each.over}" if each.over else ""
    ours = _format_ours(each, each.ours, each.ratio)
    if each.ours_after_ack is not None and each.ratio_after_ack is not None:
        after_ack = _format_ours(each, each.ours_after_ack, each.ratio_after_ack)
        ours = f"{ours} from the write's send and {after_ack} from its acknowledgement"
    sentence = f"{where}{over}: published {format_published(each)} ({each.source}); here {ours}"
    place = _origin(trial, each, aws_emulated=aws_emulated)
    return " ".join(filter(None, (f"{sentence}.", f"This is {place}." if place else "", each.note)))


def _origin(trial: TrialSummary, each: Replication, *, aws_emulated: bool) -> str:
    """Describe where our number is from; of a ratio of two trials, both count."""
    if isinstance(each, TrialReplication) and each.emulated:
        trial = trial.model_copy(update={"emulated": True})
    return describe_origin(trial, aws_emulated=aws_emulated)


def format_metric(metric: str) -> str:
    """Format a metric's name: `p93.75`, `Kolmogorov and Smirnov's D`; others as they are."""
    if metric == "ks":
        return "Kolmogorov and Smirnov\N{RIGHT SINGLE QUOTATION MARK}s D"
    if metric in INVOCATION_METRICS:
        return {"wall": "wall time", "function_throughput": "one function's throughput"}[metric]
    if metric in WRITE_METRICS:
        return f"{WRITE_METRICS[metric]} of writes, t2 {digits.MINUS} t1"
    return f"p{100 * QUANTILE_METRICS[metric]:.10g}" if metric in QUANTILE_METRICS else metric


def scored(trial: TrialSummary, run: RunSummary) -> Iterator[Replication]:
    """
    Yield what is scored of a trial: its own, its ratios over other trials, and its clock check's.

    Rows of a table of percentiles are left out. A ratio is of all repeats together, and comes with the first of them.
    """
    yield from (each for each in trial.replication if each.published_count is None)
    yield from (each for each in run.published_ratios if each.trial == (trial.group or trial.name) and not trial.repeat)
    yield from (each for check in run.clock_checks if check.a == trial.name for each in check.replication)


def format_published(each: Replication) -> str:
    """Format a time, a rate or a factor as it was published: `above 1,700 ms`, `up to 9 ×`, `3.5 to 4 ×`."""  # noqa: RUF002 -- a multiplication sign
    bound = {"above": "above ", "up_to": "up to ", None: ""}[each.bound]
    number = f"{bound}{_format_number(each, each.published)}"
    if each.published_to is None:
        return number
    upper = _format_number(each, each.published_to)
    return f"{number.removesuffix(upper.lstrip('0123456789.,'))} to {upper}"


def _format_number(each: Replication, value: float) -> str:
    if each.unit == "ms":
        return digits.latency(value)
    if each.unit == "d":
        return f"{value:.3f}"
    unit = numbers.UNITS[each.unit] or digits.TIMES
    return f"{digits.rounded(value)} {unit.name}"


def _format_ours(each: Replication, ours: Estimate, ratio: Estimate) -> str:
    if ours.value is None:
        return f"no value ({ours.reason or 'no events'})"
    if ratio.value is None:
        return _format_number(each, ours.value)
    if each.unit == "d":
        return f"{_format_number(each, ours.value)} ({ours.reason})"
    if each.published_to is not None:
        return f"{_format_number(each, ours.value)} ({_place_in_range(ratio)})"
    against = "against that limit " if each.bound else ""
    return f"{_format_number(each, ours.value)} ({against}{digits.shown(ratio, digits.TIMES)})"


def _place_in_range(ratio: Estimate) -> str:
    """Describe where ours lies: `ratio` is over the range's nearer end, and 1 within it."""
    if ratio.value != 1:
        return f"{digits.shown(ratio, digits.TIMES)} of that range's nearer end"
    beyond = {ratio.low, ratio.high} - {None, 1}
    return "within that range, but not all of its interval" if beyond else "within that range"


def published_section(run: RunView) -> doc.Section | None:
    """Return the section that sets published numbers beside ours."""
    emulated = run.manifest.emulated
    found = [(view, each) for view in run.trials for each in scored(view.summary, run.summary)]
    if not found:
        return None
    warning = doc.Sentence(
        "This run was made on one machine, with AWS emulated. No ratio below replicates a number of AWS's; they say "
        "how far this machine is from it.",
        "warning",
    )
    sentences = doc.Sentences(
        tuple(
            doc.named(view.label, view.summary, describe_replication(view.summary, each, aws_emulated=emulated))
            for view, each in found
        ),
        "The other published numbers",
    )
    table = doc.Fold("Published numbers and ours in a table", (_table(run, found),))
    parts = (warning, sentences, table) if emulated else (sentences, table)
    return doc.Section("published", "Against published numbers", parts, link="Published")


def _table(run: RunView, found: list[tuple[TrialView, Replication]]) -> doc.Table:
    pushed, answered = bool(run.triggered), bool(run.answered)
    readings = (
        " A source may mean the write's send or its acknowledgement as the start, so both are scored: "
        f"{doc.minus('t4', 't1')} and {doc.minus('t4', 't2')}."
    )
    served = f" Operations are scored by their service time, {doc.minus('t2', 't1')}."
    caption = (
        f"Published numbers beside ours, with {doc.NINETY_FIVE} intervals.{readings if pushed else ''}"
        f"{served if answered else ''} A ratio is ours over the published number, of a range over its nearer end and 1 "
        "within it; its interval is that of ours alone."
    )
    own = "" if answered else f", t4 {digits.MINUS} t1"
    scored = (doc.Column(f"Ours{own}"), doc.Column("Ratio", label=f"Ratio{own}"))
    after_ack = (doc.Column(f"Ours{_AFTER_ACK}"), doc.Column("Ratio", label=f"Ratio{_AFTER_ACK}")) if pushed else ()
    published, source = doc.Column("Published", style="wide"), doc.words("Source", "wide")
    columns = doc.columns("Trial", published, *scored, *after_ack, source)
    return doc.Table(
        "replication", caption, columns, doc.body(_row(run, view, each, pushed=pushed) for view, each in found)
    )


_AFTER_ACK = f", t4 {digits.MINUS} t2"


def _row(run: RunView, view: TrialView, each: Replication, *, pushed: bool) -> doc.Row:
    trial = view.summary
    over = f" over {each.over}" if each.over else ""
    place = _origin(trial, each, aws_emulated=run.manifest.emulated)
    first = doc.head(
        f"{view.label}, {format_metric(each.metric)}{over}",
        trial,
        window_label(trial, each.phase, each.window) if len(view.rows) > 1 else "",
        trial.provider,
        doc.Span(place, "not-aws") if place else "",
    )
    cells = [
        numbers.value("published", each.published, format_published(each), unit=each.unit),
        numbers.estimate("ours", each.ours, each.unit),
        numbers.estimate("ratio", each.ratio, "ratio"),
    ]
    if pushed:
        cells += [
            numbers.estimate("ours_after_ack", each.ours_after_ack, each.unit),
            numbers.estimate("ratio_after_ack", each.ratio_after_ack, "ratio"),
        ]
    data: doc.Data = {"trial": trial.index, "window": each.window, "phase": each.phase, "emulated": trial.emulated}
    source = doc.Cell((each.source, doc.Span(each.note, "note") if each.note else ""))
    return doc.Row(first, (*cells, source), data)


ROWS_PER_FIGURE = 16


class ShareRow(NamedTuple):
    """One store's latency behind an application's triggers; `emulated` if that is an emulator's."""

    label: str
    share: TriggerShare
    emulated: bool


def share_rows(shares: Sequence[TriggerShare], trials: Sequence[TrialSummary]) -> tuple[ShareRow, ...]:
    """Return the rows in the order of the plan. A chain is emulated as soon as one of its stores is."""
    emulated = {trial.name for trial in trials if trial.emulated}
    labels = (f"{share.application}, {share.trial}" if share.trial else share.application for share in shares)
    return tuple(
        ShareRow(label, share, not emulated.isdisjoint(share.trials))
        for label, share in zip(labels, shares, strict=True)
    )


def share_figures(rows: Sequence[ShareRow]) -> tuple[doc.Figure, ...]:
    """Draw bars for the rows that have a share, `ROWS_PER_FIGURE` at most to a figure."""
    drawn = [row for row in rows if row.share.share.value is not None]
    starts = range(0, len(drawn), ROWS_PER_FIGURE)
    return tuple(_bars(place, drawn[start : start + ROWS_PER_FIGURE]) for place, start in enumerate(starts))


def _bars(place: int, rows: Sequence[ShareRow]) -> doc.Figure:
    names = ("row", "caption", "share", "low", "high", "words", "trigger", "compute")
    top = min(1.0, 1.1 * max(row.share.share.high or row.share.share.value or 0 for row in rows))
    params = {"labels": tuple(row.label for row in rows), "top": short(top)}
    data = {"shares": columns(names, list(map(_bar, rows)))}
    drawing = Drawing(f"shares-{place}", "shares", data, params, SHARE_ROW_PX * len(rows))
    caption = (
        "Trigger latency over execution time, that is over trigger latency and the functions' own durations, with "
        f"every trigger at its median in its trial's first measured window; the thick line is the {doc.NINETY_FIVE} "
        "interval that the medians' own imply."
    )
    described = "; ".join(f"{row.label}: {format_share(row.share.share)}" for row in rows)
    chart = doc.Chart(drawing, f"Shares of trigger latency in execution time. {described}")
    return doc.Figure((chart,), caption)


def _bar(row: ShareRow) -> Row:
    share = row.share.share
    caption = f"{row.label} (emulated)" if row.emulated else row.label
    times = (digits.latency(row.share.trigger_ms.value or 0), digits.latency(row.share.compute_ms))
    return (row.label, caption, share.value, share.low, share.high, format_share(share), *times)


def format_share(share: Estimate) -> str:
    """Format a share as `25 % (21 % to 30 %)`, or say why there is none, or no interval."""
    if share.value is None:
        return f"no value ({share.reason})"
    if share.low is None or share.high is None:
        return f"{_percent(share.value)} (no interval: {digits.brief(share.reason or '')})"
    return f"{_percent(share.value)} ({_percent(share.low)} to {_percent(share.high)})"


def _percent(share: float) -> str:
    """Format per cent with two digits, or three decimals."""
    percent = 100 * share
    decimals = 0 if percent >= 10 else 1 if percent >= 1 else 2 if percent >= 0.1 else 3  # noqa: PLR2004
    return f"{percent:.{decimals}f} %"


def share_sentences(rows: Sequence[ShareRow]) -> doc.Sentences:
    """Return the answer for each application."""
    said = (
        doc.Sentence((*_label(row, "strong"), f" Its triggers take {format_share(row.share.share)} of its time."))
        for row in rows
    )
    return doc.Sentences(tuple(said), "The other applications")


def shares_section(rows: Sequence[ShareRow]) -> doc.Section | None:
    """Return the section on triggers' share; None of a run without applications."""
    if not rows:
        return None
    caption = "The applications, with durations from the sources that the plan names."
    share, source = doc.Column("Share", style="wide"), doc.words("Source", "wide more")
    columns = doc.columns("Application", share, doc.more("Triggers"), "Trigger latency", "Functions", source)
    table = doc.Table("share-table", caption, columns, doc.body(map(_cells, rows)), phone=True)
    title = "Which share of an application's time is the trigger's?"
    return doc.Section(
        "shares", title, (*share_figures(rows), doc.Fold("The applications in a table", (table,))), link="Shares"
    )


def _label(row: ShareRow, style: str = "") -> tuple[doc.Text, ...]:
    return (
        doc.Span(row.label, style) if style else row.label,
        " " if row.emulated else "",
        doc.EMULATED if row.emulated else "",
    )


def _cells(row: ShareRow) -> doc.Row:
    share = row.share
    cells = (
        numbers.value("share", share.share.value, format_share(share.share)),
        numbers.number("triggers", share.triggers),
        numbers.estimate("trigger_ms", share.trigger_ms),
        numbers.time("compute_ms", share.compute_ms),
        doc.Cell(share.source),
    )
    return doc.Row(doc.Cell(_label(row)), cells, {"application": share.application, "trial-name": share.trial})
