"""
The trace of the invocation that goes on, where one is written: annotations, and subsegments for what is not its own.

Whoever measures has none, and loads nothing for it: Lambda hands a sampled trace on to functions without tracing, too.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aws_lambda_powertools import Tracer


class _Open(threading.local):
    """X-Ray's SDK knows the handler's subsegment in its own thread alone."""

    tracer: Tracer | None = None


_open = _Open()


@contextmanager
def tracing(tracer: Tracer) -> Iterator[None]:
    """Let this invocation's trace be annotated until its handler returns."""
    _open.tracer = tracer
    try:
        yield
    finally:
        _open.tracer = None


def annotate(**values: str | int) -> None:
    """Add annotations, by which traces are found, to those of this invocation; nothing where no trace is written."""
    if _open.tracer is not None:
        for name, value in values.items():
            _open.tracer.put_annotation(name, value)  # type: ignore[arg-type]


@contextmanager
def subsegment(name: str, **values: str | int) -> Iterator[None]:
    """Have what is done for another trial be a subsegment, with annotations of its own, by which it is found, too."""
    if _open.tracer is None:
        yield
        return
    with _open.tracer.provider.in_subsegment(name=name):
        annotate(**values)
        yield
