"""What a store, a plan or a row says, through each way out: it is shown, and controls nothing."""

from __future__ import annotations

import csv
import io
import json
import logging
from collections.abc import Callable
from xml.etree import ElementTree as ET

import pytest
from jinja2 import DictLoader
from tests.samples.results import sample_manifest, sample_results, sample_summary

from stepbench.contracts.documents import Failure
from stepbench.contracts.result import Caveat, RunSummary, TrialResult
from stepbench.experiments.report.headline import describe_status
from stepbench.experiments.report.page import render_page
from stepbench.experiments.report.tables import render_csv
from stepbench.observability import logger
from stepbench.report.figures import json_for_script, page_scripts
from stepbench.report.html import template_environment
from stepbench_tools.cli.command import write, write_errors
from stepbench_tools.junit import run_suite, to_xml
from stepbench_tools.local.streams import data_console, message_console
from stepbench_tools.local.terminal import headline
from stepbench_tools.printing import render_markdown

HOSTILE = {
    "a title": "\x1b]0;owned\x07",
    "colours": "\x1b[31mred",
    "C1": "\x9b2J",
    "bell": "be\x07ll",
    "nul": "n\x00ul",
    "erased": "bad\rgood",
    "deleted": "bad\x7f\x08",
    "turned": "\u202edrawrof",
    "isolated": "\u2066x\u2069",
    "marked": "\u200fx\u061c",
    "a row": "one |\n| two | three |",
    "a heading": "x\n\n# owned",
    "a separator": "one\u2028two\u2029",
    "a formula": "=HYPERLINK(0)",
    "plus": "+1+1",
    "minus": "-2+3",
    "at": "@SUM(1)",
    "a tab": "\t=1",
    "markup": "</script><img src=x onerror=alert(1)>",
}
CONTROLS = {
    *map(chr, range(32)),
    *map(chr, range(0x7F, 0xA0)),
    *"\u061c\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e",
}
CONTROLS |= set("\u2066\u2067\u2068\u2069")


def hostile_run(text: str) -> tuple[RunSummary, tuple[TrialResult, ...]]:
    """Return a run in which the store's name, an error's, a reason and a caveat are this text."""
    caveat = Caveat(kind="unsent", text=text, remedy=text)
    found = []
    for place, result in enumerate(sample_results()):
        of_plan = {"name": text, "base": text} if place else {}
        trial = result.summary.model_copy(
            update={"provider": text, "caveats": (caveat,), "failure": Failure(error=text, cause=text), **of_plan}
        )
        found.append(result.model_copy(update={"summary": trial}))
    bare = found[0].summary.model_copy(update={"windows": (), "index": 9, "name": "bare"})
    summary = sample_summary(found)
    named = {"run_id": text, "plan": text, "question": text, "description": text}
    return summary.model_copy(update={**named, "trials": (*summary.trials, bare)}), tuple(found)


def controls(text: str, *, kept: str = "\n") -> set[str]:
    """Return the characters of a text that control something."""
    return CONTROLS.intersection(text) - set(kept)


def terminal_of(capsys: pytest.CaptureFixture[str], print_it: Callable[[], object]) -> str:
    """Return what a call prints."""
    print_it()
    return "".join(capsys.readouterr())


@pytest.fixture(params=list(HOSTILE.values()), ids=list(HOSTILE))
def text(request: pytest.FixtureRequest) -> str:
    """Return one text after the other."""
    return str(request.param)


def test_in_a_terminal_it_moves_nothing(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """ESC sets titles and erases lines, CR writes over what was said, U+202E turns round what follows."""
    summary, _ = hostile_run(text)
    prints = [
        lambda: write(text),
        lambda: write_errors(text),
        lambda: write(describe_status(summary)),
        lambda: message_console().print(headline(summary, 120)),
        lambda: message_console().print(headline(summary, 40)),
        lambda: data_console().print(text, markup=False, highlight=False, soft_wrap=True),
    ]
    for print_it in prints:
        assert controls(terminal_of(capsys, print_it), kept="\n\t") == set()


def test_in_markdown_it_ends_no_row_and_begins_no_heading(text: str) -> None:
    """A server's name with a line break split the table of a pull request."""
    usual, found = (render_markdown(hostile_run(each)[0]) for each in ("usual", text))
    assert controls(found) == set()
    assert [line[:1] for line in found.splitlines()] == [line[:1] for line in usual.splitlines()]
    for line, like in zip(found.splitlines(), usual.splitlines(), strict=True):
        if like.startswith("|"):
            assert line.replace("\\|", "").count("|") == like.count("|")


def test_in_csv_it_is_a_text_and_numbers_are_numbers(text: str) -> None:
    """A spreadsheet takes a name that begins with = for a formula, and runs it."""
    rows = list(csv.DictReader(io.StringIO(render_csv(hostile_run(text)[0]), newline="")))
    assert all(controls(cell, kept="\n\t") == set() for row in rows for cell in row.values())
    assert not [row for row in rows if row["provider"].startswith(tuple("=+-@\t\r"))]
    assert not [row for row in rows if row["name"].startswith(tuple("=+-@\t\r"))]
    assert any(float(row["value"]) for row in rows if row["value"])


def test_a_negative_number_in_csv_is_no_formula() -> None:
    """An apostrophe before it would make a text of it."""
    summary, _ = hostile_run("usual")
    estimate = summary.trials[0].windows[0].latency_ms.p50.model_copy(update={"value": -1.5, "low": -2.5})
    times = summary.trials[0].windows[0].latency_ms.model_copy(update={"p50": estimate})
    window = summary.trials[0].windows[0].model_copy(update={"latency_ms": times})
    trial = summary.trials[0].model_copy(update={"windows": (window,)})
    rows = csv.DictReader(io.StringIO(render_csv(summary.model_copy(update={"trials": (trial,)}))))
    found = next(row for row in rows if (row["measure"], row["statistic"]) == ("latency_ms", "p50"))
    assert (found["value"], found["low"]) == ("-1.5", "-2.5")


def test_in_a_page_it_is_text_that_turns_nothing_round(text: str) -> None:
    """Charts draw names that stand in the page's data; letters after U+202E read backwards in both."""
    usual, page = (page_of(each) for each in ("usual", text))
    assert controls(page, kept="\n\t\r") == controls(usual, kept="\n\t\r")
    assert page.count("<img") == usual.count("<img")


def page_of(text: str) -> str:
    """Return the page of a run, less the scripts that are ours; its data are in it."""
    summary, results = hostile_run(text)
    summary = summary.model_copy(update={"trials": summary.trials[:-1]})
    page = render_page(summary, results, sample_manifest("run-1"), {"name": "quick-unloaded", "question": text})
    for script in page_scripts().values():
        page = page.replace(script, "")
    return page


def test_in_a_pages_data_it_is_the_text_spelled_out(text: str) -> None:
    """It is parsed as JSON, and what is parsed is drawn."""
    dumped = json_for_script({"name": text, text: [1]})
    assert controls(dumped, kept="") == set()
    (name, other) = json.loads(dumped).items()
    assert controls(name[1], kept="\n\t\r\x00\x07\x08\x1b") == set()
    assert other == (name[1], [1])
    assert "<" not in dumped


def test_in_a_template_it_is_escaped_and_spelled_out(text: str) -> None:
    """Report, trends and dashboard make their pages by one environment."""
    environment = template_environment(DictLoader({"page": "{{ text }}{{ text | upper }}"}))
    page = environment.get_template("page").render(text=text)
    assert controls(page, kept="\n\t\r") == set()
    assert "<" not in page


def test_the_lines_of_a_form_come_back_as_they_were_sent() -> None:
    """Browsers send both characters; one that was spelled out made another plan of what had been checked."""
    environment = template_environment(DictLoader({"page": "<textarea>{{ text }}</textarea>"}))
    page = environment.get_template("page").render(text="a=1\r\nb=2\tc")
    assert page == "<textarea>a=1\r\nb=2\tc</textarea>"


def test_in_junit_it_is_a_text_of_xml(text: str) -> None:
    """Most control characters can stand in no XML document, which a build server then refuses whole."""
    document = to_xml([run_suite(hostile_run(text)[0])])
    assert controls(document, kept="\n\t") == set()
    ET.fromstring(document)  # noqa: S314 -- our own


def test_in_a_log_it_is_one_line_of_ascii(text: str) -> None:
    """CloudWatch and those who read it on a terminal take a line for a record."""
    record = logging.LogRecord("stepbench", logging.ERROR, __file__, 1, "%s", (text,), None)
    line = str(logger.registered_formatter.format(record))
    assert line.isascii()
    assert controls(line, kept="\x7f") == set()
    assert json.loads(line)["message"] == text
