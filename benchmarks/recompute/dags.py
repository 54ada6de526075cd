"""What executions of DAGs show, from `executions.parquet`, `tasks.parquet` and `objects.parquet` beside the records."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from benchmarks.recompute.records import Key, Numbers, quantile

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MIB = 2**20
NAMES = ["phase", "writer", "slice", "sequence"]
DAMAGED = ("truncated", "wrong_digest", "malformed_answer")
PARTS = ("open_ns", "input_ns", "get_ns", "compute_ns", "put_ns")
ORCHESTRATION = ["start", "dispatch", "barrier", "end"]
TIMES = {"task_ms": "task_ns", **{f"{name[:-3]}_ms": name for name in PARTS}}


def dags(run: Path) -> Numbers:
    """Return every number of a run's DAGs that its files tell."""
    found: Numbers = {}
    for path in sorted(run.glob("trials/*/tasks.parquet")):
        found |= _Trial(path.parent).numbers()
    return found


def spread(values: Any) -> dict[str, float | None]:  # noqa: ANN401 -- a column
    """Return what is shown of a measure."""
    ascending = np.sort(np.asarray(values, float))
    ends = {"mean": ascending.mean(), "max": ascending[-1]} if ascending.size else {"mean": None, "max": None}
    return {"n": ascending.size, "p50": quantile(ascending, 0.5), "p95": quantile(ascending, 0.95), **ends}


class _Trial:
    def __init__(self, folder: Path) -> None:
        names = ("records", "executions", "tasks", "objects")
        self.events, self.ends, self.tasks, self.objects = (
            pd.read_parquet(folder / f"{name}.parquet", dtype_backend="numpy_nullable") for name in names
        )
        self.facts = self.events.attrs
        metadata = json.loads(_metadata(folder / "tasks.parquet")["dags"])
        self.dags = {dag["name"]: dag for dag in metadata}
        self.events = self.events.astype({"phase": str})
        for name in ("ends", "tasks", "objects"):
            frame = getattr(self, name)
            setattr(self, name, frame.astype({"phase": str, "dag": str}))
        self.tasks["open_ns"] += self.tasks.connect_ns
        self.tasks["task_ns"] = self.tasks.ended_ns - self.tasks.began_ns
        started = self.events[(self.events.outcome == "ok")][NAMES].apply(tuple, axis=1)
        self.started = {*started, *self._names(self.ends), *self._names(self.tasks)}

    @staticmethod
    def _names(frame: pd.DataFrame) -> list[tuple[Any, ...]]:
        return list(frame[NAMES].itertuples(index=False, name=None))

    def numbers(self) -> Numbers:
        """Return the trial's numbers."""
        trial = self.facts["trial"]
        found = {f"executions.{name}": count for name, count in self._executions().items()}
        found |= {f"objects.{name}": count for name, count in self._objects().items()}
        ours: Numbers = {Key(trial, "", "", "", f"dag.{name}"): count for name, count in found.items()}
        for phase in self.facts["phases"]:
            for window in phase["windows"]:
                for name, value in self._window(phase, window).items():
                    ours[Key(trial, phase["name"], window["name"], "", f"dag.{name}")] = value
        return ours

    def _executions(self) -> dict[str, int]:
        arrived = self.events[self.events.t4_ns.notna()]
        completed = {*self._names(arrived), *self._names(self.ends[self.ends.completed])} & self.started
        failed = {*self._names(self.ends)} - completed
        tasks = self.tasks
        return {
            "started": len(self.started),
            "completed": len(completed),
            "failed": len(failed),
            "unfinished": len(self.started - completed - failed),
            "tasks": len(tasks[["event", "stage", "task"]].drop_duplicates()),
            "attempts": len(tasks),
            "failed_attempts": int((tasks.outcome == "failed").sum()),
            "cold_starts": int(tasks.cold.sum()),
        }

    def _edges(self) -> pd.DataFrame:
        """Return for each edge how many objects an execution writes, and how often each is read."""
        rows = []
        for name, dag in self.dags.items():
            tasks = {stage["name"]: stage["tasks"] for stage in dag["stages"]}
            for stage in dag["stages"]:
                for each in stage["inputs"]:
                    before, after = tasks[each["stage"]], stage["tasks"]
                    objects = after if each["kind"] == "scatter" else before
                    reads = after if each["kind"] == "broadcast" else 1
                    rows.append((name, each["stage"], stage["name"], objects, reads))
        return pd.DataFrame(rows, columns=["dag", "producer", "consumer", "objects", "each"])

    def _objects(self) -> dict[str, int]:
        edges, moved = self._edges(), self.objects
        dag_of = {phase["name"]: self._dag_of(phase["name"]) for phase in self.facts["phases"]}
        counts = pd.Series([dag_of[name[0]] for name in self.started], dtype=object).value_counts()
        expected = sum(int(counts.get(row.dag, 0)) * row.objects for row in edges.itertuples())
        reads_expected = sum(int(counts.get(row.dag, 0)) * row.objects * row.each for row in edges.itertuples())
        ok = moved[moved.outcome == "ok"].merge(edges, on=["dag", "producer", "consumer"])
        puts, gets = ok[ok.operation == "put"], ok[ok.operation == "get"]
        written = puts[["event", "object", "each"]].drop_duplicates()
        readers = gets[["event", "object", "stage", "task"]].drop_duplicates()
        often = readers.groupby(["event", "object"]).size().rename("readers").reset_index()
        both = written.merge(often, on=["event", "object"], how="left").fillna({"readers": 0})
        bad = moved[moved.outcome != "ok"]
        lost = bad[bad.operation == "get"].error.astype(str)
        read = int((both.readers >= both.each).sum())
        return {
            "expected": expected,
            "written": len(written),
            "unwritten": expected - len(written),
            "read": read,
            "unread": len(written) - read,
            "reads_expected": reads_expected,
            "reads": len(readers),
            "reads_missing": reads_expected - len(readers),
            "again": len(puts) - len(written) + len(gets) - len(readers),
            "failed": len(bad),
            "not_found": int(lost.str.startswith("not_found").sum()),
            "damaged": int(lost.str.startswith(DAMAGED).sum()),
            "deleted": int(self.ends.deleted.sum()),
            "unconfirmed": int(self.ends.left.sum()),
            "not_deleted": int((~written.event.isin(self.ends.event)).sum()),
        }

    def _dag_of(self, phase: str) -> str:
        """Return the DAG of a phase: what its executions say, or the only one."""
        own = pd.concat([frame[frame.phase == phase].dag for frame in (self.ends, self.tasks)])
        return str(own.iloc[0]) if len(own) else next(iter(self.dags))

    def _window(self, phase: dict[str, Any], window: dict[str, Any]) -> dict[str, Any]:
        begin, end = (phase["start_ns"] + round(window[name] * 1e9) for name in ("from_s", "to_s"))
        events = self.events
        inside = (events.phase == phase["name"]) & (events.t0_ns >= begin) & (events.t0_ns < end)
        own = events[inside & (events.outcome == "ok")][[*NAMES, "t0_ns", "t1_ns", "t4_ns"]]
        ended = own.merge(self.ends[[*NAMES, "completed"]], on=NAMES, how="left")
        completed = ended.t4_ns.notna() | ended.completed.fillna(value=False)
        tasks = self.tasks.merge(own[own.t4_ns.notna()], on=NAMES)
        counted = tasks[tasks.counts]
        whole = sum(stage["tasks"] for stage in self.dags[self._dag_of(phase["name"])]["stages"])
        full = counted.groupby("event").filter(lambda rows: len(rows) == whole)
        tasks = tasks[tasks.event.isin(full.event)]
        found: dict[str, Any] = {
            "n": full.event.nunique(),
            "completed": int(completed.sum()),
            "failed": int((~completed & ended.completed.notna()).sum()),
        }
        if found["n"]:
            found |= _path(tasks, full) | _stages(full) | self._transfers(full)
        return found

    def _transfers(self, full: pd.DataFrame) -> dict[str, Any]:
        moved = self.objects[self.objects.event.isin(full.event) & self.objects.counts & (self.objects.outcome == "ok")]
        passed = moved.groupby("event").blob_bytes.sum().reindex(full.event.unique(), fill_value=0)
        found: dict[str, Any] = {"passed_mib": passed.mean() / MIB}
        for (producer, consumer, way), rows in moved.groupby(["producer", "consumer", "operation"], observed=True):
            place, timed = f"edge.{producer}.{consumer}.{way}", rows[rows.whole_ns > 0]
            found |= {f"{place}_ms.{name}": value for name, value in spread(rows.whole_ns / 1e6).items()}
            rates = timed.blob_bytes / MIB / (timed.whole_ns / 1e9)
            found |= {f"{place}_mib_per_s.{name}": value for name, value in spread(rates).items()}
        return found


def _path(tasks: pd.DataFrame, full: pd.DataFrame) -> dict[str, Any]:
    """Return the critical path's parts, and the shares that are made of them."""
    levels = tasks.groupby(["event", "level"]).began_ns.min().rename("first_ns").reset_index()
    last = full.sort_values("ended_ns", kind="stable").groupby(["event", "level"]).tail(1)
    firsts = tasks.groupby(["event", "stage", "task"], observed=True).began_ns.min().rename("begun_ns").reset_index()
    last = last.merge(levels, on=["event", "level"]).merge(firsts, on=["event", "stage", "task"])
    last = last.sort_values(["event", "level"])  # nullable integers: a float holds no time to the nanosecond
    last["before"] = last.first_ns - last.groupby("event").ended_ns.shift().fillna(last.t1_ns)
    by_event = last.groupby("event")
    whole = by_event.agg(t0=("t0_ns", "first"), t1=("t1_ns", "first"), t4=("t4_ns", "first"), ended=("ended_ns", "max"))
    parts = pd.DataFrame({name[:-3]: by_event[name].sum() for name in PARTS})
    parts["rest"] = by_event.task_ns.sum() - parts.sum(axis=1)
    parts["late"], parts["end"] = whole.t1 - whole.t0, whole.t4 - whole.ended
    parts["start"] = last[last.level == 0].set_index("event").before
    parts["barrier"] = by_event.before.sum() - parts["start"]
    parts["dispatch"] = (last.begun_ns - last.first_ns).groupby(last.event).sum()
    parts["retry"] = (last.began_ns - last.begun_ns).groupby(last.event).sum()
    parts = parts.astype(float)
    total = parts.sum(axis=1)
    found: dict[str, Any] = {}
    for name in parts:
        found |= {f"path.{name}_ms.{each}": value for each, value in spread(parts[name] / 1e6).items()}
        found[f"path.{name}.share"] = (parts[name] / total).mean()
    own = total - parts["late"]
    found["passing_on_path"] = (parts[["get", "put"]].sum(axis=1) / own).mean()
    found["orchestration"] = (parts[ORCHESTRATION].sum(axis=1) / own).mean()
    sums = full.groupby("event")[["get_ns", "put_ns", "task_ns"]].sum().astype(float)
    found["passing_of_tasks"] = ((sums.get_ns + sums.put_ns) / sums.task_ns).mean()
    return found


def _stages(full: pd.DataFrame) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for stage, rows in full.groupby("stage", observed=True):
        for shown, column in TIMES.items():
            values = spread(rows[column].astype(float) / 1e6)
            found |= {f"stage.{stage}.{shown}.{name}": value for name, value in values.items()}
        found[f"stage.{stage}.cold_starts"] = int(rows.cold.sum())
    return found


def _metadata(path: Path) -> dict[str, str]:
    import pyarrow.parquet as pq  # noqa: PLC0415 -- of runs with DAGs only

    return {key.decode(): value.decode() for key, value in (pq.read_schema(path).metadata or {}).items()}


def of_summary(summary: dict[str, Any]) -> Iterator[tuple[Key, Any]]:
    """Yield what `summary.json` says of DAGs."""
    for trial in summary["trials"]:
        flow = trial.get("dataflow")
        if flow is None:
            continue
        for group in ("executions", "objects"):
            for name, count in flow[group].items():
                if not isinstance(count, dict):
                    yield Key(trial["index"], "", "", "", f"dag.{group}.{name}"), count
        for window in flow["windows"]:
            place = Key(trial["index"], window["phase"], window["window"], "", "")
            for name, value in _of_window(window):
                yield place._replace(metric=f"dag.{name}"), value


def _of_window(window: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    yield from ((name, window[name]) for name in ("n", "completed", "failed"))
    if not window["n"]:
        return
    shares = ("passing_on_path", "passing_of_tasks", "orchestration")
    yield from ((name, window[name]["value"]) for name in shares)
    yield "passed_mib", window["passed_mib"]["mean"]
    for part in window["path"]:
        yield from _of_spread(f"path.{part['part']}_ms", part["ms"])
        yield f"path.{part['part']}.share", part["share"]["value"]
    for stage in window["stages"]:
        for shown in TIMES:
            if stage[shown] is not None:
                yield from _of_spread(f"stage.{stage['name']}.{shown}", stage[shown])
        yield f"stage.{stage['name']}.cold_starts", stage["cold_starts"]
    for edge in window["edges"]:
        for way in ("put", "get"):
            for shown in (f"{way}_ms", f"{way}_mib_per_s"):
                yield from _of_spread(f"edge.{edge['producer']}.{edge['consumer']}.{shown}", edge[shown])


def _of_spread(name: str, found: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    yield from ((f"{name}.{each}", found[each]) for each in ("n", "mean", "max"))
    yield from ((f"{name}.{each}", found[each]["value"]) for each in ("p50", "p95"))
