from __future__ import annotations

from tests.samples.comparisons import etcd_verdicts
from tests.samples.operations import operation_results
from tests.samples.results import numbered, refused_result, sample_results, sample_summary

from stepbench_tools.printing import render_markdown


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
