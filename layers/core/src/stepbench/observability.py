"""Powertools, set up once. Nothing here runs before a receiver's t4, nor on a writer's measured path."""

from __future__ import annotations

import os
from functools import lru_cache, wraps
from typing import TYPE_CHECKING, Any

from aws_lambda_powertools import Logger, Metrics

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from aws_lambda_powertools.utilities.typing import LambdaContext

    Handler = Callable[[dict[str, Any], LambdaContext], dict[str, Any]]

logger = Logger(service="stepbench", utc=True)
metrics = Metrics(namespace="Stepbench", service="stepbench")


def observed(handler: Handler) -> Handler:
    """
    Wrap a handler that measures nothing with log context, metrics and trace.

    Powertools' own `log_metrics` warns after each invocation that had no metric to add, which is most of them.
    """

    @wraps(handler)
    def run(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
        try:
            return (_traced(handler) if is_sampled(os.environ) else handler)(event, context)
        finally:
            if metrics.metric_set:
                metrics.flush_metrics()

    with_context: Handler = logger.inject_lambda_context(run, clear_state=True)
    return with_context


def is_sampled(environ: Mapping[str, str]) -> bool:
    """Tell whether X-Ray samples this invocation, as Lambda's runtime states anew before each."""
    return "Sampled=1" in environ.get("_X_AMZN_TRACE_ID", "").split(";")


@lru_cache
def _traced(handler: Handler) -> Handler:
    """
    Return the handler with a subsegment of its own.

    Importing X-Ray's SDK takes 0.3 s of a processor, a third of most cold starts: only who is traced pays for it.
    (`Tracer(disabled=True)` imports it all the same.)
    """
    from aws_lambda_powertools import Tracer  # noqa: PLC0415 -- see above

    tracer = Tracer(service="stepbench", auto_patch=False)
    with_trace: Handler = tracer.capture_lambda_handler(handler, capture_response=False)
    return with_trace
