"""Which memory of a measured function is the cheapest that keeps a threshold, of planted truth."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.samples.function_settings import HANDLER_MS, MEMORY, failing, memory_results, settings_run
from tests.samples.results import changed, sample_manifest

from stepbench.contracts.cost import Cost
from stepbench.experiments.report.headline import short_answer
from stepbench.experiments.report.page import render_page
from stepbench.experiments.trigger.memory import NOT_EMULATED, describe_sweep, memory_sweeps
from stepbench.experiments.trigger.memory_report import memory_brief, memory_sections
from stepbench.report import document as doc
from stepbench.report.run import run_view
from stepbench_tools.printing import render_markdown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepbench.contracts.result import RunSummary, TrialResult

LIMIT = "handler p99 < 60 ms"
"""Planted: 512 MiB and more keep it."""


def said(results: Sequence[TrialResult], *thresholds: str, judge: str = "handler p99") -> list[str]:
    """Return what is said of the only sweep of a run."""
    (sweep,) = memory_sweeps(settings_run(results, judge, *thresholds))
    return [*describe_sweep(sweep)]


def drawing_of(summary: RunSummary, results: Sequence[TrialResult]) -> Any:  # noqa: ANN401 -- a drawing
    """Return what the section's figure is drawn from."""
    (section,) = memory_sections(run_view(summary, results, sample_manifest()))
    figure = section.parts[0]
    assert isinstance(figure, doc.Figure)
    (part,) = figure.parts
    chart = part.charts[0] if isinstance(part, doc.Multiples) else part
    assert isinstance(chart, doc.Chart)
    return chart.drawing


def test_the_cheapest_memory_that_keeps_the_threshold_is_named() -> None:
    """128 and 256 MiB cost less and miss it; 1,024 and 2,048 keep it and cost more."""
    (text,) = said(memory_results(), LIMIT)
    assert text.startswith("512 MiB is the cheapest memory that keeps handler p99 < 60 ms: $0.55 per million events, ")
    assert "handler time p99 47.0 ms (" in text


def test_the_cost_is_that_of_the_invocations_by_the_price_table() -> None:
    """Worked by hand: 0.20 for the requests, and 42 ms of half a GB at 0.0000166667 a GB-second."""
    (sweep,) = memory_sweeps(settings_run(memory_results(), "handler p99"))
    for setting in sweep.settings:
        gb_s = HANDLER_MS[setting.memory_mib] / 1_000 * setting.memory_mib / 1_024
        assert setting.cost.value == pytest.approx(0.2 + gb_s * 16.6667, rel=0.02)
        assert setting.cost.low is not None


def test_a_single_run_has_no_interval_of_its_cost() -> None:
    """How far runs lie apart is not known of one."""
    (sweep,) = memory_sweeps(settings_run(memory_results(repeats=1), "handler p99"))
    assert [each.cost.low for each in sweep.settings] == [None] * 5


def test_where_no_memory_keeps_it_that_is_said() -> None:
    """The fastest is named, so that a reader sees how far it is."""
    (text,) = said(memory_results(), "handler p99 < 20 ms")
    assert text.startswith("No memory keeps handler p99 < 20 ms; 2,048 MiB is the fastest, handler time p99 38.1 ms (")


def test_a_cheaper_memory_that_is_not_decided_is_named_with_what_would_decide_it() -> None:
    """The limit lies within the interval of 512 MiB: a longer run may show that it keeps to it."""
    (text,) = said(memory_results(repeats=1, handler_ms={128: 200.0, 512: 42.0, 1024: 30.0}), "handler p99 < 46 ms")
    assert text.startswith("1,024 MiB is the cheapest memory that keeps handler p99 < 46 ms")
    assert "; 512 MiB is not decided (" in text
    assert text.endswith(", and would be cheaper.")
    (alone,) = said(memory_results(repeats=1, handler_ms={128: 200.0, 512: 42.0}), "handler p99 < 46 ms")
    assert alone.startswith("No memory is shown to keep handler p99 < 46 ms: 512 MiB is not decided (")


def test_each_threshold_has_its_answer_and_all_together_have_one() -> None:
    """The one that keeps all may be another than keeps the first."""
    texts = said(memory_results(), "handler p99 < 200 ms", LIMIT)
    assert [text.partition(" is ")[0] for text in texts] == ["256 MiB", "512 MiB", "512 MiB"]
    assert texts[-1].startswith("512 MiB is the cheapest memory that keeps both thresholds: $0.55")


def test_without_a_threshold_the_cheapest_and_the_fastest_are_named() -> None:
    """What every run is held to (errors, unsent) is no wish of the plan's."""
    (text,) = said(memory_results(), "errors < 1 %")
    assert text.startswith("256 MiB is the cheapest, $0.53 per million events, ")
    assert "not shown to be cheaper than 128 MiB; 2,048 MiB is the fastest" in text


def test_what_costs_nobody_knows_is_not_called_cheap() -> None:
    """Without REPORT lines of one memory it may be the cheapest."""
    results = list(memory_results())
    results[2] = changed(results[2], cost_usd=Cost(estimate=1, actual=1, incomplete=("trigger",)))
    (text,) = said(results, LIMIT)
    assert text.startswith("512 MiB, 1,024 MiB and 2,048 MiB keep handler p99 < 60 ms; what is cheapest is not known: ")
    assert said(results)[0].startswith("2,048 MiB is the fastest, ")


@pytest.mark.parametrize(
    "fields",
    [{"emulated": True}, {"stand_ins": {"lambda": "MiniStack"}}, {"cost_usd": Cost(estimate=0, emulated=True)}],
)
def test_on_an_emulator_no_memory_is_named(fields: dict[str, Any]) -> None:
    """It runs a function with what the machine has; a real PostgreSQL's function, too."""
    results = [changed(result, **fields) for result in memory_results()]
    summary = settings_run(results, "handler p99", LIMIT)
    (sweep,) = memory_sweeps(summary)
    assert [*describe_sweep(sweep)] == [NOT_EMULATED]
    assert drawing_of(summary, results).data["chosen"]["value"] == []
    assert "128 MiB not emulated" in render_markdown(summary)
    page = render_page(summary, results, sample_manifest())
    assert '<h3>dynamodb <span class="badge emulated">memory not emulated</span></h3>' in page


def test_the_figure_has_both_curves_the_limit_and_the_one_that_is_named() -> None:
    """Its axes end beyond all of them."""
    results = memory_results()
    drawing = drawing_of(settings_run(results, "handler p99", LIMIT), results)
    assert drawing.params["labels"] == ["128 MiB", "256 MiB", "512 MiB", "1,024 MiB", "2,048 MiB"]
    assert drawing.data["limits"] == {"limit": [60.0], "words": [LIMIT]}
    assert drawing.data["chosen"] == {"value": ["512 MiB"]}
    assert drawing.data["latency"]["is"][0] == pytest.approx(178, rel=0.02)
    assert max(drawing.data["cost"]["high"]) < drawing.params["top"]


def test_a_memory_that_a_threshold_was_not_asked_of_is_not_chosen() -> None:
    """The cheapest of all would be named for having been asked nothing."""
    summary = settings_run(memory_results(), "handler p99", LIMIT, "handler p99 < 200 ms")
    asked = [each for each in summary.thresholds if not each.name.startswith("dynamodb-256-")]
    (sweep,) = memory_sweeps(summary.model_copy(update={"thresholds": tuple(asked)}))
    chosen = sweep.chosen()
    assert (chosen and chosen.name, [*describe_sweep(sweep)][-1].partition(" is ")[0]) == ("512 MiB", "512 MiB")


def test_memories_of_equal_cost_and_costs_of_few_runs_are_said_to_be_that() -> None:
    """Of single runs no interval says that two costs may be one."""
    results = list(memory_results(repeats=1, handler_ms={128: 80.0, 256: 40.0}))
    results[1] = changed(results[1], cost_usd=results[0].summary.cost_usd)
    (text,) = said(results)
    assert text.startswith("128 MiB is the cheapest, $0.37 per million events in 1 run, ")
    assert "not shown to be cheaper than 256 MiB" in text
    assert text.endswith("for $0.37 per million events.")


def test_a_memory_that_measured_nothing_is_named() -> None:
    """It may be the cheapest, and is in no row."""
    results = [
        changed(each, windows=(), state="failed") if each.summary.point[MEMORY] == 256 else each
        for each in memory_results()
    ]
    texts = said(results, LIMIT)
    assert texts[0].startswith("512 MiB is the cheapest memory that keeps ")
    assert texts[1] == "256 MiB measured nothing, and may be cheaper."


@pytest.mark.parametrize(
    ("unprocessed", "cheapest", "left_out"),
    [(400, "512 MiB", " (100 %)"), (4, "512 MiB", " (1.0 %)"), (3, "128 MiB", "")],
    ids=["all", "a hundredth", "some single ones"],
)
def test_a_memory_that_fails_its_events_is_not_the_cheapest(unprocessed: int, cheapest: str, left_out: str) -> None:
    """What fails early is cheap, and its trigger as fast as ever."""
    results = [
        failing(each, unprocessed) if each.summary.point[MEMORY] == 128 else each
        for each in memory_results(handler_ms={128: 30.0, 512: 42.0, 1024: 36.0})
    ]
    for thresholds in ((), ("p99 < 200 ms",), ("p99 < 200 ms", "p50 < 200 ms")):
        texts = said(results, *thresholds, judge="p99")
        found = texts[:-1] if left_out else texts
        assert all(text.startswith(f"{cheapest} is the ") and " cheapest" in text for text in found)
        assert not left_out or texts[-1] == f"Left out, since events were not processed: 128 MiB{left_out}."
    summary = settings_run(results, "p99", "p99 < 200 ms")
    assert drawing_of(summary, results).data["chosen"] == {"value": [cheapest]}
    assert ("128 MiB left out" in render_markdown(summary)) == bool(left_out)


def test_where_every_memory_fails_its_events_none_is_named() -> None:
    """Neither the cheapest nor the fastest of what does not work is an answer."""
    results = [failing(each, 400) for each in memory_results(handler_ms={128: 30.0, 512: 42.0})]
    left_out = "Left out, since events were not processed: 128 MiB (100 %) and 512 MiB (100 %)."
    assert said(results) == [left_out]
    assert said(results, LIMIT) == [f"No memory keeps {LIMIT}.", left_out]


def test_where_nothing_is_known_of_what_is_judged_nothing_is_the_fastest() -> None:
    """A function that printed nothing has no handler time."""
    results = [
        changed(each, windows=tuple(one.model_copy(update={"handler": None}) for one in each.summary.windows))
        for each in memory_results()
    ]
    (text,) = said(results)
    assert text.startswith("256 MiB is the cheapest, $0.53 per million events, handler time p99: ")
    assert text.endswith("; nothing is known of handler time p99.")


def test_every_other_setting_has_a_sweep_of_its_own() -> None:
    """Two batch sizes are two functions to choose a memory for."""
    point = "target.batch_size"
    results = [
        changed(result, point=result.summary.point | {point: size}, group=f"{result.summary.group}-{size}")
        for size in (1, 10)
        for result in memory_results(repeats=1)
    ]
    sweeps = memory_sweeps(settings_run(results))
    assert [sweep.title for sweep in sweeps] == ["dynamodb, batch_size = 1", "dynamodb, batch_size = 10"]
    page = render_page(settings_run(results), results, sample_manifest())
    assert page.index('id="memory"') < page.index("<h3>dynamodb, batch_size = 1</h3>")


def test_a_plan_that_does_not_vary_memory_has_nothing_of_it() -> None:
    """One memory is no choice."""
    summary = settings_run(memory_results(handler_ms={512: 42.0}))
    assert ([*memory_brief(summary)], memory_sweeps(summary)) == ([], ())


def test_the_page_answers_before_it_compares() -> None:
    """It is what the plan asks."""
    results = memory_results()
    page = render_page(settings_run(results, "handler p99", LIMIT), results, sample_manifest())
    assert 0 < page.index("512 MiB is the cheapest") < page.index('id="memory"')


def test_a_terminal_and_the_machines_output_begin_with_the_answer() -> None:
    """Five comparisons with the first memory are no answer to which one to take."""
    summary = settings_run(memory_results(), "handler p99", LIMIT)
    assert short_answer(summary)[0].startswith("512 MiB is the cheapest memory that keeps handler p99 < 60 ms")
