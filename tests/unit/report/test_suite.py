"""A run as a suite of tests."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st
from tests.samples.results import changed, refused_result, sample_facts

from stepbench.contracts.result import Caveat
from stepbench.contracts.threshold_grammar import parse_threshold
from stepbench.report.summary import summarise
from stepbench_tools.junit import Case, Suite, run_suite, to_xml

if TYPE_CHECKING:
    from stepbench.contracts.result import TrialResult


def test_each_trial_and_each_threshold_in_each_window_is_a_test(results: tuple[TrialResult, ...]) -> None:
    """What a build server shows as failed is what the verdict says; what is undecidable is skipped."""
    thresholds = [parse_threshold(text) for text in ("p99 < 900 ms", "errors < 1 %")]
    summary = summarise(sample_facts(), [results[0], refused_result(results[2], {"E": 15}), results[3]], thresholds)
    suite = run_suite(summary)
    assert (suite.name, suite.took_s) == ("quick-unloaded run-1", 134)
    assert [(case.about, case.name, case.state) for case in suite.cases] == [
        ("s3", "runs whole", "passed"),
        ("postgresql", "runs whole", "passed"),
        ("etcd", "runs whole", "failed"),
        ("postgresql", "errors < 1 %", "failed"),
        ("s3", "p99 < 900 ms", "skipped"),
        ("postgresql", "p99 < 900 ms", "skipped"),
        ("etcd", "p99 < 900 ms", "skipped"),
        ("s3", "errors < 1 %", "passed"),
        ("etcd", "errors < 1 %", "passed"),
    ]
    strict = [case.state for case in run_suite(summary, strict=True).cases]
    assert strict == ["failed" if case.state == "skipped" else case.state for case in suite.cases]
    assert "WriterMissing: 1 of 2 writers ended" in suite.cases[2].message
    assert suite.cases[3].message == "errors < 1 %: 7.0 % in postgresql"
    assert "needs a run about 1.8 × longer" in suite.cases[4].message  # noqa: RUF001


def test_a_run_that_did_not_end_well_fails_and_what_was_skipped_is(results: tuple[TrialResult, ...]) -> None:
    """A suite without a failure is green, whatever the run was."""
    skipped = changed(results[0], caveats=(Caveat(kind="skipped", text="no etcd", remedy="Install it."),), windows=())
    assert [case.state for case in run_suite(summarise(sample_facts(), [skipped])).cases] == ["skipped"]
    assert [case.state for case in run_suite(summarise(sample_facts(), [])).cases] == ["failed"]
    stopped = summarise(replace(sample_facts(), stopped=True), results[:1])
    assert [case.state for case in run_suite(stopped).cases] == ["passed", "failed"]


def test_the_document_is_as_build_servers_read_it() -> None:
    """Jenkins, GitLab and GitHub's actions all look at these elements and attributes."""
    cases = (Case("etcd", "p99 < 2 ms"), Case("s3", "lost == 0", "failed", "3 lost"), Case("s3", "p50", "skipped", "?"))
    suite = Suite("night", cases, "2025-06-01T12:00:00Z", 134)
    assert to_xml([suite]).splitlines() == [
        '<?xml version="1.0" encoding="UTF-8"?>',
        '<testsuites tests="3" failures="1" skipped="1">',
        '  <testsuite name="night" tests="3" failures="1" skipped="1" time="134.000" timestamp="2025-06-01T12:00:00Z">',
        '    <testcase classname="etcd" name="p99 &lt; 2 ms" />',
        '    <testcase classname="s3" name="lost == 0">',
        '      <failure message="3 lost" />',
        "    </testcase>",
        '    <testcase classname="s3" name="p50">',
        '      <skipped message="?" />',
        "    </testcase>",
        "  </testsuite>",
        "</testsuites>",
    ]


@given(st.text(), st.text(), st.text())
def test_any_text_makes_a_document_that_can_be_parsed(about: str, name: str, message: str) -> None:
    """A server's log has colours, which are control characters, which no XML document may have."""
    text = to_xml([Suite(name, (Case(about, name, "failed", message),))])
    (failure,) = ET.fromstring(text.encode()).iter("failure")  # noqa: S314 -- our own
    assert len(failure.attrib["message"]) >= len(message)
