"""Durations of functions from X-Ray's documents, worked by hand. The documents have the documented forms."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stepbench.analysis.application import FunctionTime, fill_durations, function_times
from stepbench.contracts.plan import Application
from stepbench.errors import Problem

RESIZE, STORE = FunctionTime("resize", 340, 1_000, 9), FunctionTime("store", 20, 2_000, 9)


def segment(name: str, start_s: float, end_s: float | None, **more: Any) -> str:  # noqa: ANN401 -- JSON
    """Write the work of one invocation as Lambda does today: without a subsegment for the handler."""
    end = {"in_progress": True} if end_s is None else {"end_time": end_s}
    return json.dumps({"name": name, "origin": "AWS::Lambda::Function", "start_time": start_s, **end, **more})


def application(*functions: dict[str, Any], source: str = "ours") -> Application:
    """Build an application that X-Ray has seen."""
    return Application.model_validate(
        {"name": "app", "source": source, "traces": {"name": "chain"}, "functions": functions}
    )


def test_the_service_s_part_is_no_work_of_the_function() -> None:
    """Both segments bear the function's name; waiting and starting a sandbox is the trigger's time."""
    service = json.dumps({"name": "resize", "origin": "AWS::Lambda", "start_time": 10.0, "end_time": 13.0})
    assert function_times([[service, segment("resize", 12.5, 12.75)]]) == (FunctionTime("resize", 250, 0, 1),)


def test_the_handler_s_subsegment_goes_before_the_segment() -> None:
    """In the older form the segment also holds initialisation, before t4, and overhead, after the response."""
    parts = [
        {"name": "Initialization", "start_time": 10.0, "end_time": 11.0},
        {"name": "Invocation", "start_time": 11.0, "end_time": 11.5},
        {"name": "Overhead", "start_time": 11.5, "end_time": 12.0},
    ]
    assert function_times([[segment("resize", 10, 12, subsegments=parts)]]) == (FunctionTime("resize", 500, 0, 1),)


def test_medians_are_over_traces_and_the_chain_is_in_order_of_start() -> None:
    """1, 2 and 9 s have the median 2; one slow trace does not stand for all."""
    traces = [
        [segment("second", 5 + late, 5 + late + length), segment("first", 0, 3)]
        for late, length in ((0, 1), (1, 2), (9, 9))
    ]
    assert function_times(traces) == (FunctionTime("first", 3_000, 0, 3), FunctionTime("second", 2_000, 6_000, 3))


def test_invocations_side_by_side_count_once() -> None:
    """A Map's ten invocations in one second take a second, and two in a row take two."""
    apart = [segment("work", 0, 1), segment("work", 0.5, 1.25), segment("work", 2, 3)]
    assert function_times([apart])[0].duration_ms == 2_250


def test_what_has_not_ended_has_no_duration() -> None:
    """Such a segment has no end yet."""
    assert function_times([[segment("late", 1, None)], []]) == ()


@pytest.mark.parametrize("text", ["", "[]", '{"origin": "AWS::Lambda::Function", "end_time": 2}', "no"])
def test_what_is_no_document_is_named(text: str) -> None:
    """Left out silently, it would make medians of fewer traces than the report says."""
    with pytest.raises(ValueError, match="no segment document"):
        function_times([[text]])


def test_only_what_is_missing_is_filled_in() -> None:
    """A duration that the plan gives is the author's choice; the source says where the others are from."""
    asked = application({"name": "resize", "trigger": "s3"}, {"name": "store", "duration_ms": 5, "trigger": "measured"})
    found = fill_durations(asked, (RESIZE, STORE), "X-Ray, medians of 9 traces", "applications[0]")
    assert isinstance(found, Application)
    assert [(each.name, each.duration_ms, each.trigger) for each in found.functions] == [
        ("resize", 340, "s3"),
        ("store", 5, "measured"),
    ]
    assert found.source == "ours; X-Ray, medians of 9 traces"
    assert Application.model_validate(found.model_dump()) == found


def test_without_functions_the_traces_tell_them() -> None:
    """All but the first are started by a trigger: what starts the first is outside."""
    found = fill_durations(application(), (RESIZE, STORE), "X-Ray", "applications[0]")
    assert isinstance(found, Application)
    assert [(each.name, each.duration_ms, each.trigger) for each in found.functions] == [
        ("resize", 340, None),
        ("store", 20, "measured"),
    ]


def test_a_long_source_gives_way() -> None:
    """The stored plan has to be a valid one."""
    found = fill_durations(
        application(source="s" * 300), (RESIZE, STORE), "X-Ray, medians of 9 traces", "applications[0]"
    )
    assert isinstance(found, Application)
    assert len(found.source) == 300
    assert found.source.endswith("...; X-Ray, medians of 9 traces")


def test_functions_that_no_trace_shows_are_named_with_those_that_are_there() -> None:
    """The usual case: the name in the plan lacks the stack's prefix."""
    asked = application({"name": "resize", "trigger": "s3"}, {"name": "Resize"}, {"name": "mail"})
    assert fill_durations(asked, (RESIZE, STORE), "X-Ray", "applications[2]") == [
        Problem(
            path=f"applications[2].functions[{index}].name",
            value=f'"{name}"',
            message="is in none of the traces",
            remedy='Name one that is: "resize", "store"; or give its duration_ms.',
        )
        for index, name in ((1, "Resize"), (2, "mail"))
    ]


@pytest.mark.parametrize(
    ("times", "message"),
    [
        ((RESIZE,), "show one function only, and so no trigger"),
        ((RESIZE._replace(duration_ms=0), STORE._replace(duration_ms=0)), "show functions that take no time at all"),
        (tuple(RESIZE._replace(name=f"f{n}") for n in range(101)), "show more functions than an application's 100"),
    ],
)
def test_traces_that_make_no_chain_are_refused(times: tuple[FunctionTime, ...], message: str) -> None:
    """Each would be an invalid application, found when the report is rendered."""
    found = fill_durations(application(), times, "X-Ray", "applications[0]")
    assert isinstance(found, list)
    assert [(problem.path, problem.message) for problem in found] == [("applications[0].traces", message)]
