"""
JUnit's XML: suites of cases that passed, failed or were skipped, as build servers read them.

Source:
    The schema of Jenkins' xUnit plugin, `junit-10.xsd`; what has no place there is left out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal
from xml.etree import ElementTree as ET

from stepbench.errors import BLANKS, printable

if TYPE_CHECKING:
    from collections.abc import Sequence

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
