"""Powertools, set up once. Nothing here runs before a receiver's t4, nor on a writer's measured path."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any

from aws_lambda_powertools import Logger, Metrics, Tracer

if TYPE_CHECKING:
    from collections.abc import Callable

    from aws_lambda_powertools.utilities.typing import LambdaContext

    Handler = Callable[[dict[str, Any], LambdaContext], dict[str, Any]]

logger = Logger(service="stepbench", utc=True)
metrics = Metrics(namespace="Stepbench", service="stepbench")
tracer = Tracer(service="stepbench", auto_patch=False)


def observed(handler: Handler) -> Handler:
    """
    Log context, metrics and trace around a handler that measures nothing.

    Powertools' own `log_metrics` warns after each invocation that had no metric to add, which is most of them.
    """
    traced = tracer.capture_lambda_handler(handler, capture_response=False)

    @wraps(handler)
    def run(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
        try:
            answer: dict[str, Any] = traced(event, context)
            return answer
        finally:
            if metrics.metric_set:
                metrics.flush_metrics()

    with_context: Handler = logger.inject_lambda_context(run, clear_state=True)
    return with_context
