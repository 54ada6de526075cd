"""
Suites of tests for a build server, as JUnit's XML: of a run, and of what changed over the runs of a plan.

Source:
    The schema of Jenkins' xUnit plugin, `junit-10.xsd`; what has no place there is left out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal
from xml.etree import ElementTree as ET

from stepbench import digits
from stepbench.errors import BLANKS, printable
from stepbench.report.regressions import FAILING, WORDS
from stepbench.report.run import describe_state, state_of, trial_labels
from stepbench.report.thresholds import threshold_rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepbench.contracts.regressions import Regressions, SeriesFinding
    from stepbench.contracts.result import RunSummary, TrialSummary
    from stepbench.report.thresholds import ThresholdRow


_DECLARATION = '<?xml version="1.0" encoding="UTF-8"?>'
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that no XML 1.0 document may hold, not even escaped: a server's log has them."""


@dataclass(frozen=True)
class Case:
    """It is one test: what it is about, what it asserts, and unless it passed, why."""

    about: str
    name: str
    state: Literal["passed", "failed", "skipped"] = "passed"
    message: str = ""


@dataclass(frozen=True)
class Suite:
    """It holds the tests of one run, or of one comparison. `started_at` is ISO 8601."""

    name: str
    cases: tuple[Case, ...]
    started_at: str = ""
    took_s: float = 0


def to_xml(suites: Sequence[Suite]) -> str:
    """Return the document, with declaration and indented."""
    root = ET.Element("testsuites", _counts([case for suite in suites for case in suite.cases]))
    for suite in suites:
        _add_suite(root, suite)
    ET.indent(root)
    return f"{_DECLARATION}\n{ET.tostring(root, encoding='unicode')}\n"


def _add_suite(root: ET.Element, suite: Suite) -> None:
    attributes = {"name": _clean(suite.name), **_counts(suite.cases), "time": f"{suite.took_s:.3f}"}
    if suite.started_at:
        attributes["timestamp"] = suite.started_at
    element = ET.SubElement(root, "testsuite", attributes)
    for case in suite.cases:
        name = {"classname": _clean(case.about), "name": _clean(case.name)}
        found = ET.SubElement(element, "testcase", name)
        if case.state != "passed":
            tag = "failure" if case.state == "failed" else "skipped"
            ET.SubElement(found, tag, {"message": _clean(case.message)})


def _counts(cases: Sequence[Case]) -> dict[str, str]:
    states = [case.state for case in cases]
    return {"tests": str(len(states)), "failures": str(states.count("failed")), "skipped": str(states.count("skipped"))}


def _clean(text: str) -> str:
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", printable(text, BLANKS))


RAN_WHOLE = "runs whole"


def run_suite(summary: RunSummary, *, strict: bool = False) -> Suite:
    """
    Return the tests.

    An undecidable threshold is skipped, or if it is to be `strict` failed, with what it would take; a trial that was
    skipped is, too.
    """
    took_s = digits.elapsed_s(summary.started_at, summary.finished_at)
    undecided: Literal["failed", "skipped"] = "failed" if strict else "skipped"
    cases = (*_run_cases(summary), *(_threshold_case(row, undecided) for row in threshold_rows(summary)))
    return Suite(f"{summary.plan} {summary.run_id}", cases, summary.started_at, took_s or 0)


def _run_cases(summary: RunSummary) -> Iterator[Case]:
    if not summary.trials:
        yield Case(summary.plan, RAN_WHOLE, "failed", "the run has no trials")
    for trial, label in zip(summary.trials, trial_labels(summary.trials), strict=True):
        yield _trial_case(trial, label)
    if summary.status == "stopped":
        yield Case(summary.plan, RAN_WHOLE, "failed", "the run was stopped")


def _trial_case(trial: TrialSummary, label: str) -> Case:
    state = state_of(trial)
    if state == "complete":
        return Case(label, RAN_WHOLE)
    why = f" {trial.failure.error}: {trial.failure.cause}" if trial.failure else ""
    return Case(label, RAN_WHOLE, "skipped" if state == "skipped" else "failed", f"{describe_state(trial)}{why}")


def _threshold_case(row: ThresholdRow, undecided: Literal["failed", "skipped"]) -> Case:
    state = undecided if row.result.state == "undecidable" else row.result.state
    return Case(row.label or row.result.threshold, row.result.threshold, state, "" if state == "passed" else str(row))


_UNDECIDED = frozenset({"suspected", "undecidable"})
_NO_NUMBERS = "none of its trials went through whole in the last run"
_FELL_BEHIND = "it fell behind its load in the last run, and had not before"


def format_regressions(found: Sequence[Regressions]) -> str:
    """Return a suite for each plan, with a test for each series: what stands worse is a failure."""
    return to_xml(
        [
            Suite(
                f"stepbench regressions {each.plan}",
                (
                    *(Case(group, "has numbers", "failed", _NO_NUMBERS) for group in each.missing),
                    *(Case(group, "keeps up", "failed", _FELL_BEHIND) for group in each.behind),
                    *map(_series_case, each.findings),
                ),
            )
            for each in found
        ]
    )


def _series_case(finding: SeriesFinding) -> Case:
    if finding.verdict in FAILING:
        return Case(finding.series.group, finding.series.name, "failed", f"{WORDS[finding.verdict]}: {finding.text}")
    if finding.verdict in _UNDECIDED:
        return Case(finding.series.group, finding.series.name, "skipped", f"{WORDS[finding.verdict]}: {finding.text}")
    return Case(finding.series.group, finding.series.name)
