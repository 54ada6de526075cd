"""Dollars from the quantities and prices beside them; performance per dollar from the medians of the records."""

from __future__ import annotations

from statistics import geometric_mean
from typing import TYPE_CHECKING, Any

from benchmarks.recompute.over_runs import ALL, of_group
from benchmarks.recompute.records import Key, Numbers

if TYPE_CHECKING:
    from collections.abc import Iterator

RUN = Key(ALL, "", "", "", "")
PER_WRITE = {"s3": "S3 PUT requests"}
"""Items whose quantity is the number of writes, where nothing was written before the load."""


def of_items(items: list[dict[str, Any]], *parts: str) -> float:
    """Return the dollars of some parts, or of all."""
    return float(sum(item["quantity"] * item["unit_price_usd"] for item in items if not parts or item["part"] in parts))


def costs(summary: dict[str, Any], found: Numbers) -> Numbers:
    """Return every dollar of a run, computed from quantities; quantities themselves as far as records tell them."""
    ours: Numbers = {}
    whole = summary.get("cost_usd")
    if whole is None:
        return ours
    items = {trial["index"]: trial["cost_usd"]["items"] for trial in summary["trials"]}
    for index, own in items.items():
        if own:
            ours[Key(index, "", "", "", "cost_usd.actual")] = of_items(own)
            ours[Key(index, "", "", "", "cost_usd.store_and_trigger")] = of_items(own, "store", "trigger")
    ours[of_group("run", RUN, "cost_usd.actual")] = of_items(whole["items"])
    for place, item in _placed(whole):
        ours[of_group("run", RUN, f"{place}.usd")] = item["quantity"] * item["unit_price_usd"]
        for name in ("quantity", "unit_price_usd"):
            ours[of_group("run", RUN, f"{place}.{name}")] = item[name]
    ours |= _writes(summary, found)
    return ours | _per_dollar(summary, found, items)


def of_summary(summary: dict[str, Any]) -> Iterator[tuple[Key, Any]]:
    """Yield what `summary.json` says of dollars."""
    whole = summary.get("cost_usd")
    for trial in summary["trials"]:
        if trial["cost_usd"].get("items"):
            yield Key(trial["index"], "", "", "", "cost_usd.actual"), trial["cost_usd"]["actual"]
            for item in trial["cost_usd"]["items"]:
                if item["item"] == PER_WRITE.get(trial["store"]) and trial["experiment"] != "dataflow":
                    yield Key(trial["index"], "", "", "", "cost_usd.writes"), item["quantity"]
    if whole is not None:
        yield of_group("run", RUN, "cost_usd.actual"), whole["actual"]
        for place, item in _placed(whole):
            yield of_group("run", RUN, f"{place}.usd"), item["usd"]
    for each in summary.get("per_dollar", ()):
        key = Key(each["trial"], each["phase"], each["window"], "", "")
        for name, metric in (("latency_s", "latency_s"), ("usd", "usd"), ("p50", "value"), ("times_worst",) * 2):
            yield key._replace(metric=f"per_dollar.{name}"), each[metric]


def _placed(whole: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for item in whole["items"]:
        yield f"cost.{item['part']}.{item['item']}", item
    for item in whole["idle"]:
        yield f"cost.idle.{item['item']}", item


def _writes(summary: dict[str, Any], found: Numbers) -> Numbers:
    """Return how many writes were billed: all that may have been sent, and canaries that arrived."""
    ours: Numbers = {}
    for trial in summary["trials"]:
        key = Key(trial["index"], "", "", "", "")
        counts = [
            {name: found.get(key._replace(metric=f"{account}.{name}"), 0) for name in ("offered", "unsent", "canaries")}
            for account in ("accounting", "warm_up")
        ]
        if (
            trial["experiment"] != "dataflow"
            and trial["store"] in PER_WRITE
            and trial["setup"].get("record.operation", "put") == "put"
        ):
            sent = sum(each["offered"] - each["unsent"] for each in counts)
            ours[key._replace(metric="cost_usd.writes")] = sent + counts[0]["canaries"]
    return ours


def _per_dollar(summary: dict[str, Any], found: Numbers, items: dict[int, list[dict[str, Any]]]) -> Numbers:
    ours: Numbers = {}
    repeats = {trial["index"]: trial["group"] or trial["name"] for trial in summary["trials"]}
    values: dict[int, dict[str, list[float]]] = {}
    for each in summary.get("per_dollar", ()):
        place = Key(each["trial"], each["phase"], each["window"], "", "")
        seconds = found[place._replace(metric="latency_ms.p50")] / 1_000
        usd = of_items(items[each["trial"]], "store", "trigger")
        values.setdefault(each["group"], {}).setdefault(repeats[each["trial"]], []).append(1 / seconds / usd)
        for name, value in (("latency_s", seconds), ("usd", usd), ("p50", 1 / seconds / usd)):
            ours[place._replace(metric=f"per_dollar.{name}")] = value
    for each in summary.get("per_dollar", ()):
        place = Key(each["trial"], each["phase"], each["window"], "", "")
        means = {name: geometric_mean(runs) for name, runs in values[each["group"]].items()}
        times = means[repeats[each["trial"]]] / min(means.values())
        ours[place._replace(metric="per_dollar.times_worst")] = times if len(means) > 1 else None
    return ours
