"""
Is anything lost or repeated where a phase is cut into slices, and one Lambda hands over to the next?

    python benchmarks/slices.py out/RUN/trials/0000/records.parquet

From the records of a finished trial: per writer the events of each slice, the longest pause between two sends across
borders of slices and elsewhere, beside the pause that is due; sends of a slice after the first of the next; events due
twice. And how late events were near the borders.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Columns = dict[str, NDArray[np.int64]]

NEAR_NS = 2_000_000_000
MS = 1e6


def main(path: str) -> None:
    """Print a line per writer, and two on lateness."""
    table = pq.read_table(path, columns=["writer", "slice", "t0_ns", "t1_ns"])
    columns = {name: table[name].to_numpy(zero_copy_only=False) for name in table.column_names}
    borders: list[int] = []
    for writer in np.unique(columns["writer"]):
        own = columns["writer"] == writer
        borders += print_writer(int(writer), {name: column[own] for name, column in columns.items()})
    print_lateness(columns, borders)


def print_writer(writer: int, rows: Columns) -> list[int]:
    """Print one line; return the last t0 of every slice but the last."""
    order = np.argsort(rows["t1_ns"], kind="stable")
    steps = np.diff(rows["slice"][order].astype(np.int64))
    pauses_ms = np.diff(rows["t1_ns"][order]) / MS
    due_ms = np.median(np.diff(np.sort(rows["t0_ns"]))) / MS
    counts = np.bincount(rows["slice"])
    print(
        f"writer {writer}: events by slice {counts.tolist()}, due every {due_ms:.3f} ms; longest pause between sends "
        f"{pauses_ms[steps != 0].max(initial=0):.3f} ms across {np.count_nonzero(steps)} borders, "
        f"{pauses_ms[steps == 0].max(initial=0):.3f} ms elsewhere; sent after the next slice began: "
        f"{np.count_nonzero(steps < 0)}; due twice: {rows['t0_ns'].size - np.unique(rows['t0_ns']).size}"
    )
    return [int(rows["t0_ns"][rows["slice"] == number].max()) for number in range(counts.size - 1)]


def print_lateness(columns: Columns, borders: list[int]) -> None:
    """Print two lines."""
    late_ms = (columns["t1_ns"] - columns["t0_ns"]) / MS
    near = np.zeros(late_ms.size, dtype=np.bool_)
    for border in borders:
        near |= np.abs(columns["t0_ns"] - border) < NEAR_NS
    for name, part in (("within 2 s of a border", late_ms[near]), ("elsewhere", late_ms[~near])):
        p50, p99, most = np.quantile(part, [0.5, 0.99, 1.0])
        print(f"lateness {name}: n {part.size:,}, p50 {p50:.3f} ms, p99 {p99:.3f} ms, max {most:.3f} ms")


if __name__ == "__main__":
    main(sys.argv[1])
