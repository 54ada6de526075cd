"""One run of `benchmarks.analysis`, in a process of its own; prints a JSON document of what it took and found."""

from __future__ import annotations

import json
import pickle
import resource
import sys
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from stepbench.analysis import latency
from stepbench.analysis.timeline import series
from stepbench.analysis.windows import MeasuredWindow
from stepbench.contracts.plan import TrialSpec
from stepbench.records.formats.columns import decode
from stepbench.records.formats.t4_items import parse_item, shape_of, unpack_together
from stepbench.records.join.grid import build_grid
from stepbench.records.join.trial import account, join
from stepbench.stats.quantiles import quantile

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.records.formats.columns import ColumnFile
    from stepbench.records.formats.t4_items import T4Item
    from stepbench.records.join.joined import Joined

START_NS = 1_700_000_000 * 10**9
MEASURES = {
    "latency": latency.trigger_latency,
    "after_ack": latency.after_ack,
    "response_write": latency.response_write,
    "response_trigger": latency.response_trigger,
    "service": latency.service,
    "lateness": latency.lateness,
}
LEVELS = (0.5, 0.9, 0.95, 0.99, 0.999)
_AT_ONCE = 1 << 18
_ITEMS_AT_ONCE = 160
"""16,000 entries, as many as ours takes together."""


class _Files:
    """Column files, read anew at each pass as from the bucket."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __iter__(self) -> Iterator[ColumnFile]:
        return (decode(path.name, path.read_bytes()) for path in sorted((self._folder / "writers").iterdir()))


def _items(folder: Path) -> Iterator[T4Item]:
    return (parse_item(item) for page in _pages(folder) for item in page)


def _pages(folder: Path) -> Iterator[list[dict[str, Any]]]:
    """Yield the items, a page of the table at a time."""
    for path in sorted((folder / "items").iterdir()):
        with path.open("rb") as file:
            while True:
                try:
                    yield pickle.load(file)  # noqa: S301 -- our own
                except EOFError:
                    break


def _spec(folder: Path) -> TrialSpec:
    return TrialSpec.model_validate_json((folder / "plan.json").read_bytes())


def _joined(folder: Path, spec: TrialSpec) -> Joined:
    starts_ns = {0: START_NS}
    drain_limit_ns = round(spec.offered.drain_limit_s * 1e9)
    grid = build_grid(spec.offered, starts_ns)
    return join(grid, set(), _Files(folder), _items(folder), drain_limit_ns, details=False, event_times=False)


def ours(folder: Path, *, intervals: bool = False) -> dict[str, float]:
    """Do the whole analysis of what the goal names."""
    spec = _spec(folder)
    joined = _joined(folder, spec)
    books = account(joined, np.ones(joined.size, dtype=np.bool_))
    found: dict[str, float] = {name: getattr(books, name) for name in ("offered", "ok", "received", "duplicates")}
    (planned,) = spec.offered.phases[0].all_windows()
    window = MeasuredWindow(joined, spec.offered, START_NS, 0, planned, number=0)
    for name, measure in MEASURES.items():
        ascending = window.ascending(measure)
        found |= {f"p_{name}_{q:g}": quantile(ascending, q) for q in LEVELS}
        del ascending
        if intervals:
            window.latency(measure)
    records = SimpleNamespace(starts_ns={0: START_NS})
    evidence: Any = SimpleNamespace(joined=joined, spec=spec, records=records)
    found["seconds"] = len(series(evidence))
    return found


def reading(folder: Path) -> dict[str, float]:
    """Decode what is stored to integers, and sum them."""
    total = 0
    for file in _Files(folder):
        total += sum(int(column.sum()) for column in file.rows[:6])
    items = _items(folder)
    # Many together, as ours takes them: by itself each would cost more than its sum.
    while some := sorted((item.packed for item in islice(items, _ITEMS_AT_ONCE)), key=shape_of):
        entries = unpack_together(some)
        total += sum(int(entries[name].sum()) for name in ("writer", "slice", "sequence", "batch_index", "t4_ns"))
    return {"total": total}


def raw(folder: Path) -> dict[str, float]:
    """Read and sum plain columns, some 2 MB at a time."""
    total = 0
    for path in sorted((folder / "raw").iterdir()):
        with path.open("rb") as file:
            while (some := np.fromfile(file, np.dtype(path.suffix[1:]), _AT_ONCE)).size:
                total += int(some.sum())
    return {"total": total}


def main() -> None:
    """Run `ours`, `intervals`, `reading` or `raw` on a folder."""
    who, folder = sys.argv[1], Path(sys.argv[2])
    before = resource.getrusage(resource.RUSAGE_SELF)
    match who:
        case "ours" | "intervals":
            found = ours(folder, intervals=who == "intervals")
        case "reading":
            found = reading(folder)
        case "raw":
            found = raw(folder)
        case _:
            sys.exit(f"unknown run {who}")
    after = resource.getrusage(resource.RUSAGE_SELF)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(json.dumps({**found, "cpu_s": cpu_s, "rss_mb": after.ru_maxrss * 1_024 / 1e6}))


if __name__ == "__main__":
    main()
