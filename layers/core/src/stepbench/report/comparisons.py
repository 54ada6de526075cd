"""Published numbers beside ours, in careful sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench import digits
from stepbench.contracts.published import QUANTILE_METRICS
from stepbench.report import document as doc
from stepbench.report import numbers
from stepbench.report.labels import window_label

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.contracts.findings import Replication
    from stepbench.contracts.measures import Estimate
    from stepbench.contracts.result import RunSummary, TrialSummary
    from stepbench.report.run import RunView, TrialView


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
    place = describe_origin(trial, aws_emulated=aws_emulated)
    return f"{sentence}. This is {place}." if place else f"{sentence}."


def format_metric(metric: str) -> str:
    """Format a metric's name: `p93.75`, `Kolmogorov and Smirnov's D`; others as they are."""
    if metric == "ks":
        return "Kolmogorov and Smirnov\N{RIGHT SINGLE QUOTATION MARK}s D"
    return f"p{100 * QUANTILE_METRICS[metric]:.10g}" if metric in QUANTILE_METRICS else metric


def scored(trial: TrialSummary, run: RunSummary) -> Iterator[Replication]:
    """Yield what is scored of a trial: its own, but for rows of a table of percentiles, and its clock check's."""
    yield from (each for each in trial.replication if each.published_count is None)
    yield from (each for check in run.clock_checks if check.a == trial.name for each in check.replication)


def format_published(each: Replication) -> str:
    """Format a time, a rate or a factor as it was published: `above 1,700 ms`, `up to 9 ×`."""  # noqa: RUF002 -- a multiplication sign
    bound = {"above": "above ", "up_to": "up to ", None: ""}[each.bound]
    return f"{bound}{_format_number(each, each.published)}"


def _format_number(each: Replication, value: float) -> str:
    if each.unit == "ms":
        return digits.latency(value)
    if each.unit == "d":
        return f"{value:.3f}"
    unit = digits.PER_MINUTE if each.unit == "per_minute" else digits.TIMES
    return f"{digits.rounded(value)} {unit.name}"


def _format_ours(each: Replication, ours: Estimate, ratio: Estimate) -> str:
    if ours.value is None:
        return f"no value ({ours.reason or 'no events'})"
    if ratio.value is None:
        return _format_number(each, ours.value)
    if each.unit == "d":
        return f"{_format_number(each, ours.value)} ({ours.reason})"
    against = "against that limit " if each.bound else ""
    return f"{_format_number(each, ours.value)} ({against}{digits.shown(ratio, digits.TIMES)})"


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
        f"{served if answered else ''} A ratio is ours over the published number; its interval is that of ours alone."
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
    place = describe_origin(trial, aws_emulated=run.manifest.emulated)
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
    return doc.Row(first, (*cells, doc.Cell(each.source)), data)
