"""A stack's resources as CloudFormation's client lists them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import jmespath

if TYPE_CHECKING:
    from collections.abc import Callable


def resource_pages(*resources: dict[str, str]) -> Callable[[str], Any]:
    """Return a client's `get_paginator` that knows these resources."""
    page = {"StackResourceSummaries": list(resources)}
    pages = SimpleNamespace(search=lambda expression: iter(jmespath.search(expression, page)))
    return lambda _operation: SimpleNamespace(paginate=lambda **_: pages)
