"""Stepbench: latency of the data stores behind serverless applications, measured with an error bar."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stepbench.loading import load_run

__all__ = ["load_run"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:  # noqa: ANN401 -- a module's attribute
    """Import what is public when it is used: a function that starts cold has no use for it."""
    if name not in __all__:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    return getattr(import_module("stepbench.loading"), name)
