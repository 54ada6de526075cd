"""Sentences on how many records each invocation was handed."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from stepbench import digits

if TYPE_CHECKING:
    from stepbench.contracts.deliveries import Deliveries

_NAMED = 5


def describe_deliveries(found: Deliveries) -> str:
    """Describe the records per invocation: `1 record per invocation in all 960 invocations`, or how they spread."""
    invocations = digits.counted(found.invocations, "invocation")
    if found.min == found.max:
        return f"{digits.counted(found.max, 'record')} per invocation in all {invocations}"
    sizes = (f"{digits.count(each.records)} ({digits.counted(each.invocations, 'time')})" for each in found.commonest)
    commonest = ", ".join(islice(sizes, _NAMED))
    return (
        f"{digits.count(found.min)} to {digits.count(found.max)} records per invocation in {invocations}, median "
        f"{found.p50:g}, p90 {found.p90:g}, mean {digits.rounded(found.mean)}; most often {commonest}"
    )
