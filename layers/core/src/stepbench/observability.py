"""
Logs, metrics and traces, set up once. Nothing here runs before a receiver's t4, nor on a writer's measured path.

Every record names the run and the trial that the event names, so that one query over all log groups gives a run's
story. Records hold names, times and errors, and never an event or an answer: plans and values stay out of the logs.
"""

from __future__ import annotations

import json
import os
import time
from functools import lru_cache, wraps
from typing import TYPE_CHECKING, Any

from aws_lambda_powertools import Logger, single_metric
from aws_lambda_powertools.metrics import MetricUnit

from stepbench.errors import shortened
from stepbench.settings import is_sampled
from stepbench.traces import annotate, tracing

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from aws_lambda_powertools import Tracer
    from aws_lambda_powertools.utilities.typing import LambdaContext

    from stepbench.settings import Settings

    Handler = Callable[[dict[str, Any], LambdaContext], dict[str, Any]]

_MOST_LOGGED = 60_000
"""The longest text in a log line: a store's message may have any length."""


def _dump(record: dict[str, Any]) -> str:
    return json.dumps(_bounded(record), separators=(",", ":"))


def _bounded(value: Any) -> Any:  # noqa: ANN401 -- any JSON
    match value:
        case bool() | int() | float() | None:
            return value
        case dict():
            return {name: _bounded(each) for name, each in value.items()}
        case list() | tuple():
            return [_bounded(each) for each in value]
    return shortened(str(value), _MOST_LOGGED)


logger = Logger(service="stepbench", utc=True, json_serializer=_dump)
"""It writes ASCII: a caller's text may hold characters at which readers of logs end a line, and cut a record."""

NAMESPACE = "Stepbench"
TARGETS_SWEPT, TARGETS_PENDING = "TargetsSwept", "TargetsPending"
"""What the sweeper tore down in place of an execution, and what it has to try again; both mean that something ended."""
SPENT_USD = "SpentUsd"
"""What a run has cost, in dollars: of the whole stack, and once more by team."""
P50, P99, LOST, FAILED, TRIAL_USD = "LatencyP50", "LatencyP99", "Lost", "Failed", "TrialUsd"
"""Of a result: by plan, trial and, of a latency, window. Failed: what the store refused or left unanswered."""
LATENCIES, DOLLARS = frozenset({P50, P99}), frozenset({SPENT_USD, TRIAL_USD})
STACK, TEAM, PLAN, TRIAL, WINDOW = "Stack", "Team", "Plan", "Trial", "Window"
"""Dimensions; every metric has the first, so that stacks of one account are distinguished."""


def put_metric(name: str, value: float, settings: Settings, **dimensions: str) -> None:
    """Write a metric into the log, from where CloudWatch takes it; nothing unless the stack is monitored: it costs."""
    if settings.monitoring:
        _write(name, value, settings, dimensions)


def put_result(name: str, value: float, settings: Settings, **dimensions: str) -> None:
    """Write a number of a result, as `put_metric`; nothing unless the stack's parameter ResultMetrics asks for it."""
    if settings.result_metrics:
        _write(name, value, settings, dimensions)


def _write(name: str, value: float, settings: Settings, dimensions: dict[str, str]) -> None:
    every = {STACK: settings.function_prefix, **dimensions}
    unit = MetricUnit.Milliseconds if name in LATENCIES else MetricUnit.NoUnit if name in DOLLARS else MetricUnit.Count
    with single_metric(name, unit, value, namespace=NAMESPACE, default_dimensions=every):
        pass


def put_spent(usd: float, team: str, settings: Settings) -> None:
    """Record what a run has cost."""
    put_metric(SPENT_USD, usd, settings)
    put_metric(SPENT_USD, usd, settings, **{TEAM: team})


def log_keys(event: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an event, which may not be valid, says of the run and the trial that it is about."""
    item = event.get("item")
    ref = (item if isinstance(item, dict) else event).get("ref")
    path = event.get("pathParameters")
    known = next((each for each in (ref, path) if isinstance(each, dict)), event)
    return {name: known[name] for name in ("run_id", "trial", "tag") if isinstance(known.get(name), (str, int))}


def trace_keys(event: Mapping[str, Any]) -> dict[str, str | int]:
    """Return the annotations that an event gives: `run`, `trial` and, of a stage of one, `phase`."""
    item, keys = event.get("item"), log_keys(event)
    phase = item.get("phase") if isinstance(item, dict) else event.get("phase")
    found = {"run": keys.get("run_id"), "trial": keys.get("trial"), "phase": phase}
    return {name: value for name, value in found.items() if isinstance(value, str | int)}


def log_failure(error: Exception, event: Mapping[str, Any]) -> None:
    """Log why a stage has failed, with the run and the trial that its event names."""
    logger.error("failed", exc_info=error, extra=log_keys(event))


def observed(handler: Handler) -> Handler:
    """Wrap a handler that measures nothing with log context and trace, and log how long it took."""

    @wraps(handler)
    def run(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
        logger.append_keys(**log_keys(event))
        began_s = time.monotonic()
        answer = (_traced(handler) if is_sampled(os.environ) else handler)(event, context)
        logger.info("ended", extra={"took_ms": round(1_000 * (time.monotonic() - began_s))})
        return answer

    with_context: Handler = logger.inject_lambda_context(run, clear_state=True)
    return with_context


@lru_cache
def _tracer() -> Tracer:
    """
    Return the tracer, and have each call of AWS be a subsegment.

    Importing X-Ray's SDK takes 0.3 s of a processor, a third of most cold starts: only who is traced pays for it.
    (`Tracer(disabled=True)` imports it all the same.)
    """
    from aws_lambda_powertools import Tracer  # noqa: PLC0415 -- see above

    return Tracer(service="stepbench", patch_modules=("botocore",))


@lru_cache
def _traced(handler: Handler) -> Handler:
    """Return the handler with a subsegment of its own, annotated with what its event is about."""

    @wraps(handler)
    def annotated(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
        with tracing(_tracer()):
            annotate(**trace_keys(event))
            return handler(event, context)

    with_trace: Handler = _tracer().capture_lambda_handler(annotated, capture_response=False)
    return with_trace
