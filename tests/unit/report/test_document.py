"""One document, written as a page and as Markdown."""

from __future__ import annotations

import pytest
from tests.samples.comparisons import etcd_verdicts
from tests.samples.operations import operation_results
from tests.samples.results import numbered, refused_result, sample_results, sample_summary

from stepbench.contracts.measures import Estimate
from stepbench.experiments.report.page import links
from stepbench.report import document as doc
from stepbench.report import numbers
from stepbench.report.html import to_html
from stepbench_tools.printing import render_markdown, to_markdown

SURE = Estimate(value=8.53, low=8.41, high=8.70)
SHORT = Estimate(value=9.0, reason="n=200 < 368")


def table(name: str = "times", **parts: object) -> doc.Table:
    """Return a table of two stores: a page has the clock, Markdown the provider, both the median."""
    columns = doc.columns(
        "Store",
        doc.words("Provider", outputs=doc.NOT_ON_PAGES),
        "p50",
        doc.more("Clock", outputs=doc.PAGE),
        short="trial",
    )
    rows = (
        doc.Row(doc.Cell("s3"), (doc.Cell("MiniStack"), numbers.estimate("p50", SURE), doc.Cell("ok")), {"trial": 0}),
        doc.Row(doc.Cell("a|b"), (doc.Cell("x"), numbers.estimate("p50", SHORT), doc.Cell("<b>")), {"trial": 1}),
    )
    return doc.Table(name, "Times.", columns, doc.body(rows))._replace(**parts)  # type: ignore[arg-type]


def test_a_number_is_made_once_for_both() -> None:
    """Two layouts of one table drift apart."""
    assert to_markdown(table()).splitlines() == [
        "| trial | provider | p50 |",
        "| --- | --- | ---: |",
        r"| s3 | MiniStack | 8.53 ms \[8.41, 8.70\] |",
        r"| a\|b | x | \~9.00 ms |",
    ]
    (page,) = to_html([table()])
    assert page.count('<th scope="col"') == 3
    assert '<tr data-trial="0"><th scope="row">s3</th><td class="number" data-label="p50" data-metric="p50"' in page
    assert 'data-value="8.53" data-low="8.41" data-high="8.7" data-unit="ms"' in page
    assert "MiniStack" not in page


def test_what_is_shown_controls_nothing() -> None:
    """Names come from whoever wrote the plan; the letters behind U+202E would be read backwards."""
    hostile = "<script>\u202ex"
    nodes = (doc.Section(hostile, hostile, (doc.Sentence(doc.Span(hostile, "strong", title=hostile)),)), table(hostile))
    page = "".join(to_html(nodes))
    assert "<script" not in page
    assert "\u202e" not in page


def test_tables_that_are_folded_are_numbered_by_themselves() -> None:
    """A reader who opens nothing counts 1, 2; what is folded is supplementary."""
    folded = doc.Fold("More", (table("b"), table("c")))
    written = "".join(to_html((table("a"), folded, doc.Fold("Plain", (table("d"),), plain=True))))
    assert [part.partition(".")[0] for part in written.split("<caption id=")[1:]] == [
        f'"{name}-caption"><b>Table {number}' for name, number in (("a", "1"), ("b", "S1"), ("c", "S2"), ("d", "2"))
    ]


def test_why_there_is_nothing_takes_the_room_of_what_a_page_would_show() -> None:
    """The columns that only Markdown has take none of it, and have their cells."""
    row = doc.Row(doc.Cell("etcd"), (doc.Cell("etcd 3.5"), doc.Cell("no window", span=2), doc.Cell()))
    (page,) = to_html([table(bodies=doc.body((row,)))])
    assert '<th scope="row">etcd</th><td colspan="2">no window</td></tr>' in page
    assert to_markdown(table(bodies=doc.body((row,)))).endswith("| etcd | etcd 3.5 | no window |")


def test_what_rows_share_is_a_column_of_markdown() -> None:
    """It has no rows that stand above others."""
    bodies = (doc.Body(tuple(table().rows)[:1], ("S3 ", doc.Span("2 reads", "note"))),)
    assert to_markdown(table(bodies=bodies, whose="reads")).splitlines()[2].startswith("| S3 2 reads | s3 | ")


def test_figures_are_for_pages() -> None:
    """A pull request shows no chart, and nobody shall believe that there was none to see."""
    with pytest.raises(TypeError, match="Figure"):
        to_markdown(doc.Figure((), "A figure."))


def test_links_name_sections_and_their_parts_in_order() -> None:
    """The navigation is made of the document: no section can be forgotten in it."""
    section = doc.Section("flow", "Flow", (doc.Heading("DAG video", name="dag-video", link="video"),), link="Flow")
    assert links((section, doc.Section("problems", "Nothing ran", ()))) == (
        ("flow", "Flow"),
        ("dag-video", "video"),
    )


def test_a_pull_request_gets_the_table_with_intervals_and_marks() -> None:
    """A number without an interval is never bare, wherever it is shown."""
    text = render_markdown(sample_summary(sample_results()))
    heading, rule, *rows = [line for line in text.splitlines() if line.startswith("|")]
    assert heading == "| trial | provider | n | p50 | p90 | p95 | p99 | lost |"
    assert rule.count("---:") == 6
    assert rows[0].startswith("| s3 | MiniStack 1.5.33 (emulated) | 200 | ")
    assert all(r"\[" in row.split(" | ")[3] for row in rows)
    assert [row.split(" | ")[6][:2] for row in rows] == [r"\~", r"\>", r"\~", r"\~"]  # dynamodb's: > drain limit
    assert r"\~ without an interval" in text


def test_operations_have_a_table_of_their_own() -> None:
    """They have a throughput, and nothing that could be lost."""
    text = render_markdown(sample_summary(numbered((*sample_results(), *operation_results()[:1]))))
    headings = [line for line in text.splitlines() if line.startswith("| trial")]
    assert ["lost" in heading for heading in headings] == [True, False]
    assert ["throughput" in heading for heading in headings] == [False, True]
    assert "| 1,450 ops/s |" in text.split(headings[1])[1]


def test_status_missed_thresholds_and_failures_come_before_and_after_it() -> None:
    """Who reads one line learns whether it passed."""
    results = sample_results()
    text = render_markdown(sample_summary([refused_result(results[2], {"57P01": 15})]))
    first, second = text.split("\n\n")[:2]
    assert first == "### quick-unloaded: succeeded, a threshold missed"
    assert second.startswith(r"**Threshold missed: errors \< 1 %: 7.0 % in postgresql**")
    failed = render_markdown(sample_summary(results))  # the sample's last trial ended early
    assert failed.startswith("### quick-unloaded: failed")
    assert "\n- **etcd** " in failed


def test_question_and_verdicts_come_before_the_table() -> None:
    """A pull request wants the answer."""
    asked = sample_summary(sample_results()).model_copy(
        update={"question": "Is it *fast*?", "verdicts": etcd_verdicts("writers", 1)}
    )
    _, question, verdict, *_ = render_markdown(asked).split("\n\n")
    assert question == r"**Is it \*fast\*?**"
    assert verdict.startswith("- writers 0: writers 2 is slower at p50: ")


def test_a_caveat_of_several_trials_stands_there_once() -> None:
    """Four times the same sentence hides the one that differs."""
    text = render_markdown(sample_summary(sample_results()))
    (line,) = [line for line in text.splitlines() if line.startswith("- **emulated**")]
    assert "(2 of 4 trials, the first s3)" in line


def test_what_a_plan_is_called_stays_text() -> None:
    """A name such as `a|b` would end its cell, and one in brackets would be a link."""
    result = sample_results()[0]
    summary = result.summary.model_copy(update={"name": "a|b", "provider": "[x](javascript:y) <b>"})
    text = render_markdown(sample_summary([result.model_copy(update={"summary": summary})]))
    assert r"| a\|b | \[x\](javascript:y) \<b\> (emulated) |" in text
