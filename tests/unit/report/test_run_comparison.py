"""A comparison of runs in the formats that people and pipelines read."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest
from tests.samples.comparisons import etcd, run

from stepbench.analysis.run_comparison import Selected, compare_summaries
from stepbench.contracts.across_trials import RunComparison
from stepbench.contracts.result import Caveat
from stepbench.report.verdicts import describe_few_runs
from stepbench_tools.printing import format_junit, format_markdown, format_text


@pytest.fixture
def found() -> RunComparison:
    """Compare a run of two trials with one of which the first is twice as slow."""
    a = run(etcd(1.0), etcd(1.0, "redis"), etcd(1.0, "gone"), run_id="before")
    b = run(etcd(2.0), etcd(1.0, "redis"), run_id="after")
    return compare_summaries(Selected([a]), Selected([b]), 0.05)


def test_text_begins_with_the_outcome_and_what_regressed(found: RunComparison) -> None:
    """One line is enough for most readers."""
    outcome, a, b, _, first, second, rest, note = format_text(found).splitlines()
    assert outcome == "2 regressions beyond 5 %; not in B: gone"
    assert (a, b) == ("A: before", "B: after (its values stand first)")
    assert first.startswith("regressed  etcd: B is slower at p50: 2.00 against 1.00 ms, 2.00 times [")
    assert second.startswith("           redis: B is the same within 10 % at p50 and p90")
    assert (rest, note) == ("Only in A: gone", describe_few_runs(found.verdicts))


def test_markdown_is_a_table_and_the_sentences_of_what_regressed(found: RunComparison) -> None:
    """It is pasted into a pull request."""
    lines = format_markdown(found).splitlines()
    assert lines[0] == "### 2 regressions beyond 5 %; not in B: gone"
    (row,) = (line for line in lines if line.startswith("| etcd "))
    assert row.count("|") == 8
    assert row.endswith("| **p50 regressed**, **p90 regressed** |")
    assert any(line.startswith("- etcd: B is slower") for line in lines)


def test_each_format_names_an_emulated_side() -> None:
    """Whoever reads one line must not take it for a fact of the store."""
    one, other = (
        run(etcd(p50_ms).model_copy(update={"emulated": emulated})) for p50_ms, emulated in ((1, True), (2, False))
    )
    compared = compare_summaries(Selected([one]), Selected([other]), 0.05)
    for text in (format_text(compared), format_junit(compared)):
        assert "Emulated, not AWS: A." in text
    (row,) = (line for line in format_markdown(compared).splitlines() if line.startswith("| etcd "))
    assert row.endswith("| emulated: no comparison |")
    assert "<skipped" in format_junit(compared)
    assert format_text(compared).startswith("Nothing is decided, emulated: no comparison\n")


def test_a_pipe_in_a_name_breaks_no_table() -> None:
    """Names come from plans."""
    odd = run(etcd(1.0, "a|b"))
    lines = format_markdown(compare_summaries(Selected([odd]), Selected([odd]), 0.05)).splitlines()
    assert any(line.startswith("| a\\|b |") for line in lines)


def test_junit_has_a_case_a_comparison_and_a_failure_a_regression(found: RunComparison) -> None:
    """Pipelines show the sentence."""
    suite = ET.fromstring(format_junit(found))  # noqa: S314 -- our own
    assert [case.attrib["name"] for case in suite.iter("testcase")] == ["etcd", "redis", "is in B"]
    (failure,) = suite.iter("failure")
    assert "p50, p90 regressed. B is slower at p50" in failure.attrib["message"] + (failure.text or "")


def test_what_broke_off_is_told_first_and_fails_the_pipeline() -> None:
    """Also where nothing is left of B to compare."""
    found = compare_summaries(
        Selected([run(etcd(1.0))]), Selected([run(etcd(1.0).model_copy(update={"incomplete": True}))]), 0.05
    )
    told = "No regression beyond 5 % shown, but etcd failed or broke off in B"
    assert format_text(found).splitlines()[0] == told
    assert format_markdown(found).splitlines()[0] == f"### {told}"
    (failure,) = ET.fromstring(format_junit(found)).iter("failure")  # noqa: S314 -- our own
    assert failure.attrib["message"] == "in B it failed or broke off"
    for format_ in (format_text, format_markdown):
        assert format_(found).splitlines()[-1] == "Failed or broke off in B, those trials are not compared: etcd"
        assert "| comparison |" not in format_(found)


def test_json_is_the_contract(found: RunComparison) -> None:
    """What is printed can be read again."""
    assert RunComparison.model_validate_json(found.model_dump_json()) == found


def test_what_fell_behind_is_a_failure_of_the_pipeline_too() -> None:
    """The exit code says so, and whoever looks for why reads the test cases."""
    found = compare_summaries(Selected([run(etcd(1.0))]), Selected([run(etcd(1.0))]), 0.05)
    behind = found.model_copy(update={"behind": ("etcd",), "passed": False})
    assert '<failure message="it fell behind its load in B, and kept up in A"' in format_junit(behind)
    assert "<failure" not in format_junit(found)


def test_what_makes_a_verdict_doubtful_is_told_once_for_each_side() -> None:
    """The name of a caveat alone sends its reader to two other reports."""
    caveat = Caveat(kind="host_jitter", text="The host was late.", remedy="Use a quiet one.")
    short = Caveat(kind="short_sample", text="Too few.", remedy="Run it longer.")
    doubted = [etcd(1.0, name).model_copy(update={"caveats": (caveat, short)}) for name in ("one", "two")]
    b = run(doubted[0], etcd(1.0, "two"))
    found = compare_summaries(Selected([run(*doubted)]), Selected([b]), 0.05)
    of_a, of_b = found.caveats
    assert (of_a.kind, of_a.side, of_a.trial, of_a.trials) == ("host_jitter", "A", "one", 2)
    assert (of_b.kind, of_b.side, of_b.trial, of_b.trials) == ("host_jitter", "B", "one", 1)
    told = "host jitter: A, one and 1 more trial: The host was late. Use a quiet one."
    assert f"doubtful   {told}" in format_text(found).splitlines()
    assert f"- {told}" in format_markdown(found).splitlines()
