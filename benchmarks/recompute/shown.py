"""What a run shows: the numbers of its summary, page, CSV and table, each with where it belongs."""

from __future__ import annotations

import csv
import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

import numpy as np
from benchmarks.recompute import costs, dags, over_runs
from benchmarks.recompute.records import QUANTILES, Key, quantile

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.recompute.records import Samples

MS_PER = {"µs": 0.001, "ms": 1.0, "s": 1000.0}


def of_summary(summary: dict[str, Any], samples: Samples) -> Iterator[tuple[Key, Any]]:
    """Yield the numbers of `summary.json`; of steps what is computed from two windows at once is put beside them."""
    for trial in summary["trials"]:
        for name in ("accounting", "warm_up"):
            for each, count in (trial[name] or {}).items():
                yield Key(trial["index"], "", "", "", f"{name}.{each}"), count
        for window in trial["windows"]:
            place = (trial["index"], window["phase"], window["name"])
            found = window["operations"] or {}
            kinds = {kind["kind"]: kind for kind in found.get("kinds", ())}
            more = {**(found.get("connecting") or {}), **(found.get("invocations") or {})}
            for kind, parts in {"": {**window, **found, **more}, **kinds}.items():
                yield from ((Key(*place, kind, name), value) for name, value in _flat(parts))
    yield from _of_thresholds(summary["thresholds"])
    yield from over_runs.of_summary(summary)
    yield from costs.of_summary(summary)
    yield from dags.of_summary(summary)
    for trial in summary["trials"]:
        for step in trial["comparisons"]:
            keys = [Key(trial["index"], step[f"phase_{w}"], step[w], "", "latency_ms") for w in "ab"]
            a, b = ({q: quantile(np.sort(samples[key]), q) or np.nan for q in (0.25, 0.5, 0.75, 0.9)} for key in keys)
            ours = {"median_shift_ms": b[0.5] - a[0.5], "median_ratio": b[0.5] / a[0.5]}
            ours["iqr_ratio"] = (b[0.75] - b[0.25]) / (a[0.75] - a[0.25])
            ours["tail_ratio"] = b[0.9] / b[0.5] / (a[0.9] / a[0.5])
            for name, value in ours.items():
                yield keys[1]._replace(metric=f"difference.{name}"), (step[name]["value"] or np.nan) - value


def _of_thresholds(results: list[dict[str, Any]]) -> Iterator[tuple[Key, Any]]:
    """Yield what thresholds of one word are about; those of a kind or of another time than latency are not compared."""
    metrics = {"lost": "lost", "duplicates": "duplicates", "throughput": "throughput_per_s", "max": "latency_ms.max"}
    metrics |= {"errors": "errors"} | {name: f"latency_ms.{name}" for name in QUANTILES}
    for result in results:
        word, *rest = result["threshold"].split()
        if word in metrics and rest[:1] in (["<"], [">"], ["<="], [">="]) and result["window"] is not None:
            metric = f"{metrics[word]}.share" if result["unit"] == "share" else metrics[word]
            yield Key(result["trial"], result["phase"], result["window"], "", metric), result["value"]


def _flat(parts: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in parts.items():
        if name == "errors":
            yield from ((f"error.{code}", count) for code, count in value.items())
        elif name == "percentiles":
            for row in value:
                yield f"percentile.{row['percentile']}", row["value_ms"]
                yield f"count.{row['percentile']}", row["count"]
        elif name == "per_minute":
            yield from ((f"minute.{minute}", count) for minute, count in enumerate(value))
        elif isinstance(value, dict) and "p50" in value:
            numbers = {each: found for each, found in value.items() if each != "at_least"}
            yield from ((f"{name}.{each}", v["value"] if isinstance(v, dict) else v) for each, v in numbers.items())
        elif not isinstance(value, (dict, list, str, type(None))):
            yield name, value


class Page(HTMLParser):
    """The cells of `report.html` that say what they show; where each belongs stands there, at its row or body."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.cells: list[tuple[Key, Any]] = []
        self._around: dict[str, dict[str, str | None]] = {"tbody": {}, "tr": {}}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note where a row belongs; keep a cell's number."""
        own = dict(attrs)
        if tag in self._around:
            self._around |= {"tbody": own, "tr": {}} if tag == "tbody" else {"tr": own}
        at = {**self._around["tbody"], **self._around["tr"], **own}
        if tag != "td" or "data-metric" not in own:
            return
        kind = (at.get("data-kind") or "").replace("all", "")
        metric = str(own["data-metric"]) + (f".{own['data-percentile']}" if "data-percentile" in own else "")
        if "data-error" in at:
            metric = f"error.{at['data-error']}"
        key = Key(over_runs.ALL, at.get("data-phase") or "", at.get("data-window") or "", kind, metric)
        if (at.get("data-trial") or "").isdigit():
            key = key._replace(trial=int(at["data-trial"] or 0))
        elif "data-verdict" in at:
            key = Key(int(at["data-verdict"] or 0), over_runs.VERDICT, "", "", metric)
        elif "data-group" in at:
            key = over_runs.of_group(at["data-group"] or "", key, metric)
        else:
            return
        self.cells.append((key, _number(own.get("data-value"))))
        if "data-count" in own:
            self.cells.append(
                (key._replace(metric=metric.replace("percentile", "count")), float(own["data-count"] or 0))
            )


def of_csv(text: str) -> Iterator[tuple[Key, Any]]:
    """Yield the numbers of the CSV, those of a window with each of its rows; an empty cell is none."""
    for row in csv.DictReader(text.splitlines()):
        if row["window"]:
            place = Key(int(row["trial"]), row["phase"], row["window"], "", "")
            measure_ms = row["measure"].replace("write_ms", "ms") if row["kind"] else row["measure"]
            yield place._replace(kind=row["kind"], metric=f"{measure_ms}.{row['statistic']}"), _number(row["value"])
            for name in ("n", "sent", "failed", "unknown", "lost", "offered_per_s", "achieved_per_s"):
                yield place._replace(metric=name), _number(row[name])


def of_text(text: str, places: list[Key]) -> Iterator[tuple[Key, Any]]:
    """Yield the numbers of the terminal's table or of Markdown's, one row a window, each with half its last digit."""
    lines = [re.split(r"\s*\|\s*|\s{2,}", line.strip().strip("|").strip()) for line in text.splitlines()]
    start = next((n for n, cells in enumerate(lines) if {"trial", "p50"} <= set(cells)), len(lines))
    rows = [cells for cells in lines[start + 1 :] if len(cells) >= len(lines[start]) - 1 and "n" in lines[start]]
    for place, cells in zip(places, [row for row in rows if not set(row[0]) <= set("-─:")], strict=False):
        for heading, cell in zip(lines[start], cells, strict=False):
            found = re.match(r"\D{0,2}([\d,]+(?:\.(\d+))?)(?: (µs|ms|s)\b)?", cell)
            if found and heading in {*QUANTILES, "n", "lost"}:
                scale = MS_PER[found[3] or "ms"]
                half = scale / 10 ** len(found[2] or "") / 2
                metric = f"latency_ms.{heading}" if heading in QUANTILES else heading
                yield place._replace(metric=metric), (float(found[1].replace(",", "")) * scale, half)


def _number(text: str | None) -> float | None:
    return float(text) if text else None
