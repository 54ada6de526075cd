"""Phrases that readers stumbled over are gone from the report's sources, and from the pages of the samples."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from stepbench.contracts.result import RunSummary, TrialResult

from tests.samples.results import sample_manifest

import stepbench
import stepbench_tools
from stepbench.experiments.report.page import render_page

PACKAGE, TOOLS = (Path(str(package.__file__)).parent for package in (stepbench, stepbench_tools))
WORDS = sorted(
    path
    for room in (PACKAGE / "analysis", PACKAGE / "report", PACKAGE / "stats", TOOLS / "local", TOOLS / "cli")
    for path in room.rglob("*")
    if path.suffix in {".py", ".j2", ".js"} and "charts.json" not in path.name
)
RETIRED = {
    r"had their function running within": "Median 0.54 ms",
    r"times as high": "45 % lower",
    r"times as (long|much)|times that limit": "1.04 ×",  # noqa: RUF001
    r"too few: ": "needs about 4 × longer",  # noqa: RUF001 -- a multiplication sign
    r"\d+th event|every \{\w+\}th": "needs about 4 × longer",  # noqa: RUF001
    r"generator saturated": "late sends",
    r"\d without [a-z]+\)": "1 of 3 runs too short",
    r"[Oo]ps a minute|/min\b(?!\")": "ops/s",
    r"bin without a send": "no send gap of 100 ms or more",
    r"Half of the writes": "Median",
}
"""What is retired, as a pattern, and what is said instead."""


@pytest.mark.parametrize("pattern", RETIRED)
def test_no_source_has_a_retired_phrase(pattern: str) -> None:
    """What is written once comes back with the next feature, unless something stops it."""
    found = [path.name for path in WORDS if re.search(pattern, path.read_text("utf-8"))]
    allowed = {"digits.py", "words.py", "parser.py"}
    assert set(found) <= allowed, f"say {RETIRED[pattern]!r} instead"


def test_no_page_has_a_retired_phrase(run: RunSummary, operated: tuple[TrialResult, ...], page: str) -> None:
    """Sentences are put together; the parts alone do not show it."""
    both = page + render_page(run, operated, sample_manifest())
    text = re.sub(r"<script.*?</script>", "", both, flags=re.DOTALL)
    assert {pattern for pattern in RETIRED if re.search(pattern, text)} == set()
