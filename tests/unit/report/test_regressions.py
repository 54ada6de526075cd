"""The section about a plan's runs: what it shows is what was found, and a chart has its table."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest
from tests.samples.run_series import P50, noise, run_id, run_series

from stepbench.analysis.regressions import find_regressions
from stepbench.contracts.measures import Estimate
from stepbench.contracts.regressions import DetectorSettings
from stepbench.report.regressions import draw, format_text, render_trends
from stepbench_tools.junit import format_regressions

if TYPE_CHECKING:
    from stepbench.contracts.regressions import SeriesRun

VALUES = [*noise(40), *(1.2 * value for value in noise(20, seed=9)), 18.0, 12.0]


def test_the_section_is_well_formed_and_marks_what_was_found() -> None:
    """Acknowledged shifts, spikes and confirming runs are said in the table, too, for whoever sees no chart."""
    series = run_series(VALUES, acknowledged={40: "TLS <on>"}, confirms={61: 60})
    section = ET.fromstring(str(render_trends(series, find_regressions(series, DetectorSettings()))))  # noqa: S314
    (chart,) = section.iter("svg")
    assert len(list(chart.iter("circle"))) == 62
    assert [each.text for each in chart.iter("text")] == ["✓ acknowledged"]
    table = list(section.iter("table"))[1]
    marks = {row[0].text: row[3].text for row in table.find("tbody") or () if row[3].text}
    assert marks[run_id(40)] == "acknowledged shift: TLS <on>"
    assert marks[run_id(60)] == "spike"
    assert marks[run_id(61)] == f"confirms {run_id(60)}"


def test_a_chart_is_upright_and_within_its_frame() -> None:
    """Larger values lie higher, intervals about their values."""
    series = run_series([10.0, 20.0, 15.0])
    (finding,) = find_regressions(series, DetectorSettings()).findings
    points = draw(series, finding).points
    assert points[1].y < points[2].y < points[0].y
    assert all(0 <= point.x <= 640 for point in points)
    for point in points:
        assert point.high is not None
        assert point.low is not None
        assert point.high < point.y < point.low


def test_names_from_outside_are_escaped() -> None:
    """A trial may be called anything."""
    series = run_series(noise(12))
    evil = series.model_copy(update={"plan": "<script>alert(1)</script>"})
    assert "<script>" not in render_trends(evil, find_regressions(evil, DetectorSettings()))


def test_runs_under_other_settings_are_named() -> None:
    """Nobody should think that they were looked at."""
    found = find_regressions(run_series(noise(12)), DetectorSettings(), ["r-old"])
    assert "1 run under other settings or elsewhere left out: r-old" in format_text(found)


def beyond(run: SeriesRun) -> SeriesRun:
    """Return a run whose p50 is known to be 60 s at least."""
    (value,) = run.values
    least = Estimate(value=None, low=60_000, reason="> drain limit (60 s)")
    return run.model_copy(update={"values": (value.model_copy(update={"estimate": least}),)})


def test_runs_beyond_the_drain_limit_are_drawn_at_the_upper_edge() -> None:
    """The worst runs are the last that a chart may hide."""
    given = run_series([*noise(40), 30.0, 30.0, 30.0])
    series = given.model_copy(update={"runs": (*given.runs[:40], *map(beyond, given.runs[40:]))})
    section = ET.fromstring(str(render_trends(series, find_regressions(series, DetectorSettings()))))  # noqa: S314
    arrows = [each for each in section.iter("path") if each.get("class") == "beyond"]
    assert len(arrows) == 3
    rows = list(list(section.iter("table"))[1].find("tbody") or ())
    assert [row[2].text for row in rows[40:]] == ["> 60.0 s"] * 3


@pytest.mark.parametrize(("measure", "said"), [("latency", "▲ worse"), ("throughput", "▼ worse")])
def test_an_arrow_points_where_the_numbers_go(measure: str, said: str) -> None:
    """Throughput is worse when it falls."""
    series = P50 if measure == "latency" else P50.model_copy(update={"measure": "throughput", "quantile": None})
    worse = 13.0 if measure == "latency" else 7.0
    given = run_series([*noise(40), worse, worse, worse], series=series)
    assert said in render_trends(given, find_regressions(given, DetectorSettings()))


def test_a_last_run_without_numbers_fails_in_a_pipeline() -> None:
    """Exit code and JUnit say the same; so does the text."""
    given = run_series(noise(40))
    last = given.runs[-1].model_copy(update={"values": ()})
    found = find_regressions(given.model_copy(update={"runs": (*given.runs[:-1], last)}), DetectorSettings())
    assert f"the last run, {last.run_id}, has no numbers of etcd" in format_text(found)
    assert len(list(ET.fromstring(format_regressions([found])).iter("failure"))) == 1  # noqa: S314


def test_a_series_of_one_run_is_not_drawn() -> None:
    """A point without another shows nothing, and `1 runs in order` stood below it."""
    series = run_series([10.0], series=P50)
    page = render_trends(series, find_regressions(series, DetectorSettings()))
    assert "<svg" not in page
    assert "A series of a single run is not drawn" in page
    series = run_series([10.0, 11.0], series=P50)
    assert "2 runs in order" in render_trends(series, find_regressions(series, DetectorSettings()))
