"""What the report says of a window of operations, and formats of what only operations have; cheap to import."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stepbench import digits
from stepbench.report.run import describe_latency

if TYPE_CHECKING:
    from stepbench.contracts.measures import ConnectingResult, KindResult, Latency, OperationsResult, WindowResult
    from stepbench.report.run import WindowRow


@dataclass(frozen=True)
class ConnectingPart:
    """It is a part of operations that make their own connections; `share` of their service time, from 0 to 1."""

    name: str
    latency: Latency
    share: float | None


def describe_operations(row: WindowRow) -> str:
    """Answer for one window of operations: how long, how many a second, how many came to nothing."""
    window, found = row.window, row.window.operations
    clients = f" with {digits.counted(found.clients, 'client')}" if found and found.clients else ""
    times = describe_latency(window.latency_ms, "p99")
    done = (found and format_wall(found)) or format_throughput(window.throughput_per_s)
    return f"{times}; {done}{clients}; {_outcomes(found)}."


def format_wall(found: OperationsResult) -> str:
    """Format what a number of operations took: `200 answered in 4.02 s of wall time, 49.8 ops/s`; "" for a time."""
    if found.wall_s is None or found.per_wall_s is None:
        return ""
    done = digits.count(sum(kind.ok for kind in found.kinds))
    return f"{done} answered in {digits.rounded(found.wall_s)} s of wall time, {format_throughput(found.per_wall_s)}"


def _outcomes(found: OperationsResult | None) -> str:
    kinds = found.kinds if found else ()
    failed, unknown = sum(kind.failed for kind in kinds), sum(kind.unknown for kind in kinds)
    sentences = [f"{digits.count(failed)} failed"] if failed else []
    sentences += [f"{digits.count(unknown)} got no answer"] if unknown else []
    return ", ".join(sentences) or "none failed"


def format_throughput(per_s: float) -> str:
    """Format throughput: `1,450 ops/s`."""
    return f"{digits.rate(per_s)} ops/s"


def kind_per_s(window: WindowResult, kind: KindResult) -> float:
    """Return the kind's part of what was achieved a second."""
    done = sum(each.ok for each in window.operations.kinds) if window.operations else 0
    return window.throughput_per_s * kind.ok / done if done else 0.0


def format_kind(kind: KindResult) -> str:
    """Format a kind's name: `read-modify-write`."""
    return kind.kind.replace("_", "-")


def connecting_parts(found: ConnectingResult) -> tuple[ConnectingPart, ...]:
    """Return what a service time is made of, in the order of time, and what is left unexplained."""
    named = (
        ("connect (TCP)", found.connect_ms),
        ("TLS handshake", found.tls_ms),
        ("authenticate", found.authenticate_ms),
        ("operate", found.operate_ms),
    )
    present = [(name, latency) for name, latency in named if latency is not None]
    sums = [latency.mean or 0.0 for _, latency in present]
    accounted = 1 - found.unaccounted_share
    return tuple(
        ConnectingPart(name, latency, accounted * mean / sum(sums) if sum(sums) else None)
        for (name, latency), mean in zip(present, sums, strict=True)
    )


def format_part_share(share: float | None) -> str:
    """Format a share: `12 %`, `0.4 %`."""
    if share is None or not math.isfinite(share):
        return digits.NONE
    return f"{digits.rounded(100 * share, 2)} %"
