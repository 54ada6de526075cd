"""Rows of transfers as trials leave them, made up: two modes on EFS, a rate that rises with size on S3."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from stepbench.contracts.transfer.plan import MIB, PLATFORMS, PUBLISHED_ORDER
from stepbench.contracts.transfer.rows import TransferRow

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from stepbench.contracts.transfer.plan import Platform, Source

DAY_NS = 86_400 * 10**9
MIDNIGHT_NS = 1_749_081_600 * 10**9  # 2025-06-05, a Thursday
SIZES_MIB = (1, 5, 10, 25, 50, 100, 250, 500, 750)


def row(**changes: Any) -> TransferRow:  # noqa: ANN401 -- any field's
    """Return one read that went well: 2 MiB from S3 in 100 ms, but for the changes."""
    fields: dict[str, Any] = {
        "run_id": "run", "trial": 0, "number": 0, "attempt": 0, "place": 0, "due_at_ns": MIDNIGHT_NS,
        "began_at_ns": MIDNIGHT_NS + 5, "platform": "lambda", "source": "s3", "path": "files/7/2.bin",
        "file_bytes": 2 * MIB, "received_bytes": 2 * MIB, "connect_ns": 9_000_000, "first_byte_ns": 20_000_000,
        "transfer_ns": 100_000_000, "mib_ns": (60_000_000, 100_000_000), "digest_ok": True, "digest_ns": 300_000,
        "cpu_ns": 4_000_000, "sandbox": "a1", "served": 0, "cold": True, "task": "request", "zone": "eu-west-1a",
        "network_interface": "10.0.0.7", "memory_bytes": 50 * MIB, "outcome": "ok",
    }  # fmt: skip
    return TransferRow(**{**fields, **changes})


def month(processes: int, *, days: int = 30, seed: int = 7, run_every: int = 8) -> Iterator[TransferRow]:
    """
    Yield the reads of so many processes on each platform over so many days: EFS, then S3, of a size that is drawn.

    Every `run_every` processes of a platform are a run of their own, as an hourly schedule has them.
    """
    draw = random.Random(seed)  # noqa: S311 -- a sample, the same each time
    for number in range(processes):
        for process, platform in enumerate(PLATFORMS):
            began_ns = MIDNIGHT_NS + number * days * DAY_NS // processes + draw.randrange(10**9)
            size_mib = draw.choice(SIZES_MIB)
            sandbox = f"{draw.getrandbits(64):016x}"
            for place, source in enumerate(PUBLISHED_ORDER):
                yield _drawn(draw, platform, source, size_mib, began_ns + place * 60 * 10**9).model_copy(
                    update={
                        "run_id": f"run-{number // run_every:04d}",
                        "number": number % run_every * 2 + process,
                        "place": place,
                        "sandbox": sandbox,
                    }
                )


def _drawn(draw: random.Random, platform: Platform, source: Source, size_mib: int, began_ns: int) -> TransferRow:
    rate = _rate(draw, platform, source, size_mib)
    pace = [draw.lognormvariate(0, 0.3) for _ in range(size_mib)]
    first_ns = int(draw.lognormvariate(0, 0.4) * (2e7 if source == "s3" else 4e6))
    scale = (size_mib / rate * 1e9) / sum(pace)
    at_ns, reached = [], float(first_ns)
    for each in pace:
        reached += each * scale
        at_ns.append(int(reached))
    if draw.random() < 0.01:  # it stands still for two seconds
        stalled = draw.randrange(size_mib)
        at_ns = [each + (2 * 10**9 if place >= stalled else 0) for place, each in enumerate(at_ns)]
    failed = draw.random() < 0.003
    return row(
        began_at_ns=began_ns, due_at_ns=began_ns - 4_000_000, platform=platform, source=source,
        path=f"files/7/{size_mib}.bin", file_bytes=size_mib * MIB,
        received_bytes=0 if failed else size_mib * MIB, connect_ns=9_000_000 if source == "s3" else None,
        first_byte_ns=None if failed else first_ns, transfer_ns=None if failed else at_ns[-1],
        mib_ns=() if failed else tuple(at_ns), digest_ok=None if failed else True, cpu_ns=int(4e6 * size_mib),
        cached_share=None if source == "s3" else 0.0, outcome="failed" if failed else "ok",
        error="ConnectionReset" if failed else "",
    )  # fmt: skip


def _rate(draw: random.Random, platform: Platform, source: Source, size_mib: int) -> float:
    if source == "s3":
        return 25 * size_mib / (size_mib + 12) * draw.lognormvariate(0, 0.03)
    slow = draw.random() < (0.3 if platform == "fargate" else 0.15)
    return (45 if slow else 220) * size_mib / (size_mib + 2) * draw.lognormvariate(0, 0.15)


def rows_of(table: pa.Table) -> Iterator[TransferRow]:
    """Yield the rows of a file's table that has all columns."""
    yield from (TransferRow.model_validate(row) for row in table.to_pylist())


def published_line(**changes: Any) -> dict[str, Any]:  # noqa: ANN401 -- right ones and wrong ones
    """Return one made-up transfer in the published form: 10 MiB from EFS in half a second."""
    return {
        "file-size-mb": 10, "mbs": 20.0, "file": "/mnt/efs/test-3.bin", "start-time": 7_000_000_000, "type": "lambda",
        "end-time": 7_500_000_000, "file-size": 10 * MIB, "event": "efs-bench", "duration-s": 0.5, "storage": "EFS",
        "duration-ns": 500_000_000, "timestamp": "2025-06-05 18:56:03.466", **changes,
    }  # fmt: skip


def published_text(*lines: dict[str, Any]) -> str:
    """Return such lines as a file."""
    return "".join(f"{json.dumps(line)}\n" for line in lines)


def moment(text: str) -> datetime:
    """Return a time of UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)
