"""
Applications, chains of functions: how long these run, and the share of trigger latency in the time of all.

How long they run comes from X-Ray's segment documents. A Lambda invocation leaves two segments of the function's name.
That of origin `AWS::Lambda` is the service's part: waiting, placing, starting a sandbox, and every attempt; that is
time of the trigger, up to t4. That of origin `AWS::Lambda::Function` is the function's own work, which is read here.

Source:
    AWS, "Visualize Lambda function invocations using AWS X-Ray", Lambda Developer Guide, services-xray; segment
    documents: X-Ray Developer Guide, xray-api-segmentdocuments; the share: Fig. 2 of the TriggerPerf paper.
"""

from __future__ import annotations

import json
import math
import statistics
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from stepbench.clock import covered
from stepbench.contracts.across_trials import TriggerShare
from stepbench.contracts.measures import Estimate
from stepbench.contracts.plan import ApplicationFunction
from stepbench.errors import Problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from stepbench.contracts.plan import Application
    from stepbench.contracts.result import TrialSummary


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
        FunctionTime(name, round(statistics.median(values), 3), round(statistics.median(starts[name]), 3), len(values))
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


MEASURED = "measured"


class TrialMedian(NamedTuple):
    """It holds a trial's median trigger latency in its first measured window, in ms."""

    trial: str
    median: Estimate


def trigger_shares(
    applications: Iterable[Application], trials: Sequence[TrialSummary], listed: Sequence[str] = ()
) -> Iterator[TriggerShare]:
    """
    Pair each application with each trial's store as its `measured` trigger; once, if it names all its stores.

    Args:
        applications: of the plan.
        trials: of the run, in the order of execution.
        listed: names of groups (of trials, where nothing is repeated) in the order of the plan. A store that is named
            is represented by the first trial there that measured it.
    """
    stores: dict[str, TrialMedian] = {}
    for trial in sorted(trials, key=lambda trial: _place(trial, listed)):
        known, found = stores.get(trial.store), _measured(trial)
        if known is None or (known.median.value is None and found.median.value is not None):
            stores[trial.store] = found
    for application in applications:
        if any(function.trigger == MEASURED for function in application.functions):
            for trial in trials:
                # The same trial is the same estimate, under either name.
                own = next((each for each in stores.values() if each.trial == trial.name), _measured(trial))
                yield share(application, {**stores, MEASURED: own}, trial.name)
        else:
            yield share(application, stores, "")


def share(application: Application, stores: Mapping[str, TrialMedian], trial: str) -> TriggerShare:
    """
    Return trigger latency over execution time, with every trigger at its median.

    Args:
        application: the chain.
        stores: by store, and the one in question under `measured`.
        trial: whose latency stands behind `measured`; empty for none.
    """
    compute_ms = sum(function.duration_ms or 0 for function in application.functions)
    triggers = [function.trigger for function in application.functions if function.trigger is not None]
    trigger_ms = _total(triggers, stores)
    return TriggerShare(
        application=application.name,
        source=application.source,
        trial=trial,
        trials=tuple(dict.fromkeys(stores[name].trial for name in triggers if name in stores)),
        triggers=len(triggers),
        compute_ms=compute_ms,
        trigger_ms=trigger_ms,
        share=_share(trigger_ms, compute_ms),
    )


def _place(trial: TrialSummary, listed: Sequence[str]) -> int:
    name = trial.group or trial.name
    return listed.index(name) if name in listed else len(listed)


def _measured(trial: TrialSummary) -> TrialMedian:
    if not trial.windows:
        return TrialMedian(trial.name, Estimate(value=None, reason="nothing was measured"))
    if trial.incomplete:
        return TrialMedian(trial.name, Estimate(value=None, reason="the trial is incomplete"))
    return TrialMedian(trial.name, trial.windows[0].latency_ms.p50)


def _total(triggers: Sequence[str], stores: Mapping[str, TrialMedian]) -> Estimate:
    """
    Sum all triggers' medians. Those of one trial are one estimate, and err together.

    Source:
        Zou & Donner (2008), Statistics in Medicine 27(10), 1693-1702: limits of a sum of independent estimates
        from each one's own limits (MOVER).
    """
    times: Counter[TrialMedian] = Counter()
    for name in triggers:
        if name not in stores:
            return Estimate(value=None, reason=f"no trial measured {name}")
        times[stores[name]] += 1
    return _sum(times)


def _sum(medians: Mapping[TrialMedian, int]) -> Estimate:
    value, below, above, lacking = 0.0, 0.0, 0.0, ""
    for (trial, median), times in medians.items():
        if median.value is None:
            return Estimate(value=None, reason=f"{trial}: {median.reason}")
        value += times * median.value
        if median.low is None or median.high is None:
            lacking = lacking or f"{trial}: {median.reason}"
            continue
        below += (times * (median.value - median.low)) ** 2
        above += (times * (median.high - median.value)) ** 2
    if lacking:
        return Estimate(value=value, reason=lacking)
    return Estimate(value=value, low=value - math.sqrt(below), high=value + math.sqrt(above))


def _share(trigger_ms: Estimate, compute_ms: float) -> Estimate:
    """Return the share with its limits, which follow from the latency's, since it grows with the latency."""
    low, value, high = (
        None if ms is None else ms / (ms + compute_ms) for ms in (trigger_ms.low, trigger_ms.value, trigger_ms.high)
    )
    return Estimate(value=value, low=low, high=high, reason=trigger_ms.reason)
