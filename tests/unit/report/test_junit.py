"""JUnit's XML, as build servers read it."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st

from stepbench.report.junit import Case, Suite, to_xml


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
