"""DAGs on a run's page, in Markdown, in CSV, in a terminal and in an execution's output."""

from __future__ import annotations

import csv
import json
import re
from typing import TYPE_CHECKING

import pytest
from tests.samples.dataflow_findings import (
    DAGS,
    EXECUTIONS,
    SHOWN,
    dataflow_results,
    media_answers,
    object_accounting,
)
from tests.samples.results import changed, sample_manifest, sample_results, sample_summary

from stepbench.analysis.verdicts import plan_verdicts
from stepbench.contracts.dataflow.result import DataflowFindings, ObjectAccounting
from stepbench.contracts.experiment import EXECUTION_LATENCY
from stepbench.experiments.dataflow.report.view import DagView, FlowTrial, dag_views, flow_trials
from stepbench.experiments.dataflow.report.words import describe_all_objects, describe_objects, result_rows
from stepbench.experiments.dataflow.sentences import describe_objects as describe_trial_objects
from stepbench.experiments.report.headline import headline_lines, headline_tables
from stepbench.experiments.report.page import render_page
from stepbench.experiments.report.tables import render_csv
from stepbench.report.figures import specifications
from stepbench_tools.printing import render_markdown

if TYPE_CHECKING:
    from stepbench.contracts.result import RunSummary, TrialResult

RESULTS = dataflow_results()


def summary_of(results: tuple[TrialResult, ...] = RESULTS) -> RunSummary:
    """Return the run's summary, with which store is the best."""
    return sample_summary(results, "quick-dataflow").model_copy(update=SHOWN)


def findings_of(result: TrialResult) -> DataflowFindings:
    """Return what a trial of DAGs shows."""
    assert result.summary.dataflow is not None
    return result.summary.dataflow


def with_objects(**counts: int) -> tuple[TrialResult, ...]:
    """Return the results with other objects in the first trial."""
    broken = findings_of(RESULTS[0]).model_copy(update={"objects": object_accounting(DAGS, **counts)})
    return (changed(RESULTS[0], dataflow=broken), *RESULTS[1:])


@pytest.fixture(scope="module")
def page() -> str:
    """Return the run's page."""
    return render_page(summary_of(), RESULTS, sample_manifest())


def viewed(results: tuple[TrialResult, ...], labels: list[str] | None = None) -> tuple[list[FlowTrial], DagView]:
    """Return the trials of a run as the page shows them, and its first DAG."""
    trials = flow_trials(results, labels or [each.summary.name for each in results])
    return [*trials], next(iter(dag_views(summary_of(results), results, trials)))


def figures_of(page: str) -> dict[str, dict[str, str]]:
    """Return the figures that a page's script draws."""
    found = re.search(r'<script type="application/json" id="page-data">(.*?)</script>', page)
    assert found is not None
    figures: dict[str, dict[str, str]] = json.loads(found[1])["figures"]
    return figures


def test_what_became_of_the_objects_stands_before_any_time(page: str) -> None:
    """A store that loses data is fast for nothing."""
    objects = 4 * object_accounting().expected
    accounted = page.index(f"All {objects} objects were written, read as often as their DAG says")
    assert accounted < page.index("redis is the fastest") < page.index('id="dag-video"')


def test_every_figure_has_its_place_and_its_specification(page: str) -> None:
    """Of each DAG: times, dollars at two ways to pay, what time consists of, tasks of each store; the stores."""
    drawn = figures_of(page)
    kinds = {name: sum(each["chart"].startswith(name) for each in drawn.values()) for name in specifications()}
    expected = {
        "dataflow-end-to-end": 2, "dataflow-per-dollar": 4, "dataflow-time-parts": 2, "dataflow-transfer-parts": 2,
        "dataflow-gantt": 8, "dataflow-over-time": 4,
    }  # fmt: skip
    assert {name: number for name, number in kinds.items() if name.startswith("dataflow-")} == expected
    assert [place for place in drawn if f'id="{place}"' not in page] == []


def test_every_link_of_the_page_has_its_place(page: str) -> None:
    """Sections that are left out leave no way to them."""
    targets = set(re.findall(r'href="#([^"]+)"', page))
    assert targets - set(re.findall(r'\bid="([^"]+)"', page)) == set()


def test_an_emulated_store_is_marked_and_in_no_ranking(page: str) -> None:
    """Its times are the emulator's: beside real stores they would be read as S3's."""
    assert "s3 (emulated, not ranked)" in page
    assert all("s3" not in {medium.name for medium in answer.ranked} for answer in media_answers())


def test_an_object_that_is_missing_is_said_first_everywhere() -> None:
    """On the page, in the terminal and in the execution's output."""
    results = with_objects(unread=2, reads_missing=3, reads=object_accounting().reads - 3)
    summary = summary_of(results)
    said = "2 not read as often as the DAG says"
    page = render_page(summary, results, sample_manifest())
    assert "In 1 of 4 trials objects are missing, left, or not known to be removed." in page
    assert said in page
    assert said in headline_lines(summary)[0]
    assert said in render_markdown(summary)


def test_published_numbers_stand_beside_ours_with_what_to_know_of_them(page: str) -> None:
    """The source contradicts itself, and an emulated store replicates nothing."""
    table = page[page.index('id="published-dags"') :]
    table = table[: table.index("</table>")]
    assert table.count("<tr data-metric") == 2
    assert "The introduction says up to 3.06." in table
    assert "the store of s3 is emulated" in table
    assert "more than 75 %" in table
    (line,) = [line for line in render_markdown(summary_of()).splitlines() if "more than 75 %" in line]
    assert line.startswith("| Cassandra, share of time passing data, learning | more than 75 % | 16.0 % ")


def test_decisions_to_reconfigure_stand_with_their_numbers(page: str) -> None:
    """One that was made, and one that was not worth it."""
    assert re.findall(r'data-phase="(\w+)" data-decision="(\w+)"', page) == [
        ("video", "reconfigured"),
        ("learning", "kept"),
        ("video", "kept"),
    ]
    assert page.count(", away for ") == 1
    assert "4,800 requests gained in 60.0 s, more than the 2,520 lost" in page


def test_repeats_share_one_bar_and_one_drawing_of_tasks() -> None:
    """Ten repeats of four stores would draw forty."""
    repeated = tuple(
        changed(each, index=number, group="redis", repeat=number) for number, each in enumerate([RESULTS[1]] * 3)
    )
    _, dag = viewed(repeated, ["redis.r1", "redis.r2", "redis.r3"])
    assert dag.windows[0].first[0].drawing.params["labels"] == ["redis"]
    assert (len(dag.windows[0].rows), len(dag.gantts)) == (3, 1)


def without_whole(result: TrialResult) -> TrialResult:
    """Return a trial none of whose executions has completed."""
    found = findings_of(result)
    windows = tuple(
        window.model_copy(update={"n": 0, "edges": (), "stages": (), "path": (), "critical": ()})
        for window in found.windows
    )
    return changed(result, dataflow=found.model_copy(update={"windows": windows}))


def test_a_store_at_which_all_executions_failed_hides_no_other() -> None:
    """Its objects' times are not known; those of the others are, in figures and tables alike."""
    results = (without_whole(RESULTS[0]), *RESULTS[1:])
    window = viewed(results)[1].windows[0]
    assert any(each.drawing.chart == "dataflow-transfer-parts" for each in window.stacks)
    assert [trial.label for trial, _ in window.shown] == [each.summary.name for each in RESULTS[1:]]
    assert "data-edge=" in render_page(summary_of(results), results, sample_manifest())


def test_trials_whose_dags_of_one_name_differ_are_drawn_with_the_edges_of_each() -> None:
    """A plan may give another trial a DAG of the same name with a stage less."""
    found = findings_of(RESULTS[1])
    windows = tuple(window.model_copy(update={"edges": window.edges[1:]}) for window in found.windows)
    results = (
        RESULTS[0],
        changed(RESULTS[1], dataflow=found.model_copy(update={"windows": windows})),
        *RESULTS[2:],
    )
    stacks = viewed(results)[1].windows[0].stacks
    (figure,) = (each for each in stacks if each.drawing.chart == "dataflow-transfer-parts")
    edges = len(found.windows[0].edges)
    assert len(figure.drawing.data["rows"]["row"]) == len(RESULTS) * edges - 1


def test_a_repeat_that_failed_hides_no_other() -> None:
    """The first one of which something is known has the figures."""
    repeated = tuple(
        changed(each, index=number, group="redis", repeat=number)
        for number, each in enumerate([without_whole(RESULTS[1]), RESULTS[1]])
    )
    assert [trial.first for trial in viewed(repeated, ["redis.r1", "redis.r2"])[0]] == [False, True]


def test_a_run_without_dags_has_no_section_of_them() -> None:
    """Triggers pass no data."""
    results = sample_results()
    assert 'id="dataflow"' not in render_page(sample_summary(results), results, sample_manifest())


def test_markdown_has_objects_answers_and_a_row_for_each_store_and_dag() -> None:
    """For a pull request: what the page says, without its figures."""
    text = render_markdown(summary_of())
    assert "redis is the fastest" in text
    assert "| learning/test | accuracy = 0.9611 | s3 (emulated), redis, " in text
    tables = [part for part in text.split("\n\n") if part.startswith("| store |")]
    assert [len(table.splitlines()) for table in tables] == [2 + len(RESULTS)] * len(DAGS)


def test_csv_has_each_stage_and_edge_with_its_interval() -> None:
    """For a spreadsheet, in full precision."""
    rows = list(csv.DictReader(render_csv(summary_of()).splitlines()))
    edge = [row for row in rows if (row["name"], row["kind"], row["measure"]) == ("redis", "edge pca-train", "put_ms")]
    assert [row["statistic"] for row in edge] == ["p50", "p95"]
    assert float(edge[0]["low"]) < float(edge[0]["value"]) < float(edge[0]["high"])


def test_the_headline_has_a_table_of_executions() -> None:
    """What a terminal shows: executions are no operations, and have no throughput."""
    (table,) = headline_tables(summary_of())
    assert "throughput" not in table.headings("terminal")
    assert len(list(table.rows)) == len(RESULTS) * len(DAGS)
    assert headline_lines(summary_of())[-2].endswith(f"{EXECUTIONS * len(DAGS)} completed")


def test_end_to_end_time_is_one_time_and_execution_latency_is_the_other(page: str) -> None:
    """Tables said t4 - t0, and the terminal, thresholds and verdicts t4 - t1 by the same name."""
    named = dict(re.findall(r"(End-to-end time|Execution latency) <span class=.formula.>(t4 − t\d)", page))  # noqa: RUF001
    assert named == {"End-to-end time": "t4 − t0", "Execution latency": "t4 − t1"}  # noqa: RUF001
    assert (EXECUTION_LATENCY.name, EXECUTION_LATENCY.formula) == ("execution latency", "t4 − t1")  # noqa: RUF001
    assert "execution latency p50" in headline_lines(summary_of())[-1]


def test_what_the_tasks_of_a_stage_found_stands_together() -> None:
    """Six labels are one row; what all of them say stands once."""
    results = {f"video/classify-{task}": f'{{"label": {task}, "right": true}}' for task in (1, 0, 2)}
    shown = findings_of(RESULTS[0]).model_copy(update={"results": results, "differing": ("video/classify-2",)})
    assert list(result_rows(shown)) == [("video/classify, 3 tasks", "label = 0 1 2, right = true", False)]


def test_no_verdict_sets_an_emulated_store_or_another_dag_against_anything_else() -> None:
    """MiniStack against a real Redis, and video against learning: both would say nothing, and sound as if they did."""
    trials = [result.summary for result in RESULTS]
    found = plan_verdicts(trials)
    assert found
    assert [each.subject for each in found if each.a.emulated or each.b.emulated or each.aspect == "window"] == []


@pytest.mark.parametrize(
    ("left", "complete", "words"),
    [
        (None, False, "removal of 64 not confirmed"),
        (0, True, "removal of 64 seen at the tear-down"),
        (3, False, "3 still in the store at the trial's tear-down"),
    ],
)
def test_a_removal_without_an_answer_is_not_said_to_have_left_anything(
    left: int | None, words: str, *, complete: bool
) -> None:
    """Deletions that timed out were carried out all the same, and the report said "64 left" of an empty store."""
    found = object_accounting(unconfirmed=64, left=left)
    assert found.complete == complete
    assert words in describe_objects(found)
    assert describe_all_objects([found]).startswith("All ") == complete
    older = object_accounting().model_dump() | {"left": 64}
    del older["unconfirmed"]
    read = ObjectAccounting.model_validate(older)
    assert (read.unconfirmed, read.left) == (64, None)


def test_transfers_that_failed_are_told_with_what_was_not_there() -> None:
    """They may have succeeded when they were tried again, so that nothing is missing."""
    lost = object_accounting(failed=3, not_found=1)
    assert "3 transfers failed, 1 of them of objects that were not there" in describe_trial_objects(lost)


def test_a_sentence_on_objects_adds_up() -> None:
    """Every object is in one of its numbers."""
    found = object_accounting(written=150, unwritten=6, read=147, unread=3, reads=180, reads_missing=6, left=1)
    assert describe_objects(found) == (
        "156 objects expected: 150 written, 6 not written, 3 not read as often as the DAG says, "
        "1 still in the store at the trial's tear-down, "
        "180 of 186 reads made"
    )
