"""
`benchmarks.analysis` by polars' streaming engine; for a Python that has polars, and nothing of ours.

The quickest of three ways that were tried: all levels of a measure in one `quantile` (one by one it takes 1.7 times
the CPU), arrivals brought down to one an event before the join.
"""

from __future__ import annotations

import json
import resource
import sys

import polars as pl

START_NS = 1_700_000_000 * 10**9
LEVELS = (0.5, 0.9, 0.95, 0.99, 0.999)
KEY = ["writer", "slice", "sequence"]


def main(folder: str) -> None:
    """Prints a JSON document of what it took and found."""
    before = resource.getrusage(resource.RUSAGE_SELF)
    rows, arrivals = pl.scan_parquet(f"{folder}/rows.parquet"), pl.scan_parquet(f"{folder}/arrivals.parquet")
    first = arrivals.group_by(KEY).agg(pl.col("t4").min(), pl.len().alias("arrivals"))
    joined = rows.join(first, on=KEY, how="left")
    t0, t1, t2, t4 = (pl.col(name) for name in ("t0", "t1", "t2", "t4"))
    measures = {
        "latency": t4 - t1,
        "after_ack": t4 - t2,
        "response_write": t2 - t0,
        "response_trigger": t4 - t0,
        "service": t2 - t1,
        "lateness": t1 - t0,
    }
    never = pl.lit(2**62)  # what is lost is in the tail of every quantile
    books = [
        pl.len().alias("offered"),
        (pl.col("outcome") == 0).sum().alias("ok"),
        t4.is_not_null().sum().alias("received"),
        (pl.col("arrivals") - 1).sum().alias("duplicates"),
    ]
    levels = [each.fill_null(never).quantile(list(LEVELS), "linear").alias(name) for name, each in measures.items()]
    second, latency = (t0 - START_NS) // 10**9, measures["latency"].fill_null(never)
    series = joined.group_by(second.alias("second")).agg(
        pl.len().alias("offered"),
        (pl.col("outcome") == 0).sum().alias("ok"),
        t4.is_not_null().sum().alias("received"),
        latency.quantile(0.5).alias("p50"),
        latency.quantile(0.9).alias("p90"),
        latency.max().alias("max"),
    )
    whole, points = pl.collect_all([joined.select(books + levels), series], engine="streaming")
    after = resource.getrusage(resource.RUSAGE_SELF)
    found = {name: whole[name][0] for name in ("offered", "ok", "received", "duplicates")}
    for name in measures:
        found |= {f"p_{name}_{q:g}": at / 1e6 for q, at in zip(LEVELS, whole[name][0], strict=True)}
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(json.dumps({**found, "seconds": points.height, "cpu_s": cpu_s, "rss_mb": after.ru_maxrss * 1_024 / 1e6}))


if __name__ == "__main__":
    main(sys.argv[1])
