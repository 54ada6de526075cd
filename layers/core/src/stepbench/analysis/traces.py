"""
How long an application's functions run, from X-Ray's segment documents.

A Lambda invocation leaves two segments of the function's name. That of origin `AWS::Lambda` is the service's part:
waiting, placing, starting a sandbox, and every attempt; that is time of the trigger, up to t4. That of origin
`AWS::Lambda::Function` is the function's own work, which is read here.

Source:
    AWS, "Visualize Lambda function invocations using AWS X-Ray", Lambda Developer Guide, services-xray; segment
    documents: X-Ray Developer Guide, xray-api-segmentdocuments.
"""

from __future__ import annotations

import json
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

from stepbench.clock import covered
from stepbench.contracts.plan import ApplicationFunction
from stepbench.errors import Problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from stepbench.contracts.plan import Application

FUNCTION = "AWS::Lambda::Function"
INVOCATION = "Invocation"
"""The handler's subsegment, where Lambda writes one; beside it lie Initialization, Restore and Overhead."""
MAX_SOURCE_CHARS = 300
MAX_FUNCTIONS = 100


class Span(NamedTuple):
    """It says when a function ran, in seconds since the epoch."""

    start_s: float
    end_s: float


class FunctionTime(NamedTuple):
    """It holds a function's medians over the traces: how long it runs, and how long after the trace's first."""

    name: str
    duration_ms: float
    start_ms: float
    traces: int


def function_times(traces: Iterable[Sequence[str]]) -> tuple[FunctionTime, ...]:
    """
    Return the functions' times in the order in which they start.

    A function that is invoked several times in one trace counts with the time in which at least one of its
    invocations ran. What has not ended is left out.

    Args:
        traces: each with its segments' documents, JSON texts.

    Raises:
        ValueError: a document is no JSON object of the documented form.
    """
    durations: dict[str, list[float]] = {}
    starts: dict[str, list[float]] = {}
    for documents in traces:
        ran = _parse_spans(documents)
        first_s = min((span.start_s for spans in ran.values() for span in spans), default=0.0)
        for name, spans in ran.items():
            durations.setdefault(name, []).append(1e3 * covered(spans))
            starts.setdefault(name, []).append(1e3 * (min(span.start_s for span in spans) - first_s))
    found = [
        FunctionTime(name, round(median(values), 3), round(median(starts[name]), 3), len(values))
        for name, values in durations.items()
    ]
    return tuple(sorted(found, key=lambda time: (time.start_ms, time.name)))


def fill_durations(
    application: Application, times: Sequence[FunctionTime], seen: str, path: str
) -> Application | list[Problem]:
    """
    Return the application with the durations that it did not give, or why it cannot have them.

    Args:
        application: with `traces`.
        times: of the functions that the traces show, at least one, in order.
        seen: what the durations are from, in a few words; goes to the application's source.
        path: of the application in its plan.
    """
    problems = list(_check_functions(application, times, path) if application.functions else _check_chain(times, path))
    if problems:
        return problems
    functions = _add_durations(application, times) if application.functions else _chain(times)
    if not any(function.duration_ms for function in functions):
        message, remedy = "show functions that take no time at all", "Give the functions with their duration_ms."
        return [Problem(path=f"{path}.traces", value=_names(times), message=message, remedy=remedy)]
    room = MAX_SOURCE_CHARS - len(seen) - 2
    source = application.source if len(application.source) <= room else f"{application.source[: room - 3]}..."
    return application.model_copy(update={"functions": functions, "source": f"{source}; {seen}"})


def _check_functions(application: Application, times: Sequence[FunctionTime], path: str) -> Iterator[Problem]:
    found = {time.name for time in times}
    for index, function in enumerate(application.functions):
        if function.duration_ms is None and function.name not in found:
            yield Problem(
                path=f"{path}.functions[{index}].name",
                value=json.dumps(function.name),
                message="is in none of the traces",
                remedy=f"Name one that is: {_names(times)}; or give its duration_ms.",
            )


def _check_chain(times: Sequence[FunctionTime], path: str) -> Iterator[Problem]:
    if len(times) == 1:
        message = "show one function only, and so no trigger"
        remedy = "List it in functions, with its trigger, beside the others and their duration_ms."
        yield Problem(path=f"{path}.traces", value=_names(times), message=message, remedy=remedy)
    if len(times) > MAX_FUNCTIONS:
        message = f"show more functions than an application's {MAX_FUNCTIONS}"
        remedy = "List those that count in functions."
        yield Problem(path=f"{path}.traces", value=f"{len(times)}", message=message, remedy=remedy)


def _add_durations(application: Application, times: Sequence[FunctionTime]) -> tuple[ApplicationFunction, ...]:
    medians = {time.name: time.duration_ms for time in times}
    return tuple(
        function
        if function.duration_ms is not None
        else function.model_copy(update={"duration_ms": medians[function.name]})
        for function in application.functions
    )


def _chain(times: Sequence[FunctionTime]) -> tuple[ApplicationFunction, ...]:
    """Chain the functions in order; what starts the first is outside the application."""
    return tuple(
        ApplicationFunction(name=time.name, duration_ms=time.duration_ms, trigger="measured" if place else None)
        for place, time in enumerate(times)
    )


def _names(times: Iterable[FunctionTime]) -> str:
    return ", ".join(json.dumps(time.name) for time in times)


def _parse_spans(documents: Iterable[str]) -> dict[str, list[Span]]:
    """Return when each function ran in this trace, by name."""
    ran: dict[str, list[Span]] = {}
    for text in documents:
        try:
            segment = json.loads(text)
            if segment.get("origin") == FUNCTION and (span := _span(_handler_segment(segment))) is not None:
                ran.setdefault(str(segment["name"]), []).append(span)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            message = f"no segment document: {text[:80]}"
            raise ValueError(message) from error
    return ran


def _handler_segment(segment: dict[str, Any]) -> dict[str, Any]:
    """Return the handler's subsegment; else the segment, with the response's sending and the runtime's end."""
    return next((part for part in segment.get("subsegments") or () if part.get("name") == INVOCATION), segment)


def _span(part: dict[str, Any]) -> Span | None:
    if part.get("in_progress") or "end_time" not in part:
        return None
    return Span(float(part["start_time"]), float(part["end_time"]))
