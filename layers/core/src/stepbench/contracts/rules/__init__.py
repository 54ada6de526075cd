"""
All rules of a trial that span several of its fields; each yields what is broken.

One is long: etcd takes nothing any more once its file has its quota. It holds a revision for every write, in pages of
4 KiB that are filled to 90 %. What has been overwritten stays until a compaction. Tear-down compacts and defragments,
so each trial begins with an empty file.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from stepbench.contracts.base import BrokenRule, repeated_names
from stepbench.contracts.published import DAG_METRICS, INVOCATION_METRICS, WRITE_METRICS
from stepbench.contracts.rules import experiments, load, values
from stepbench.contracts.target import ETCD_QUOTA_GIB, CassandraTarget, DynamoDbTarget, EtcdTarget
from stepbench.contracts.workload import Kind, ProductRecord

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.contracts.phase import Phase
    from stepbench.contracts.published import Published
    from stepbench.contracts.trial import TrialFields


GIB = 2**30
QUOTA_BYTES = ETCD_QUOTA_GIB * GIB
COMPACTION_S = 300
"""`--auto-compaction-retention` of both; an etcd that was given none compacts never."""
_HISTORY_S = 2 * COMPACTION_S + 60
"""Every five minutes it drops what had been overwritten five minutes before that, and takes up to a minute to do so."""
MOST_WRITES_PER_S = 20_000
"""By clients of a closed loop: etcd's own benchmark reached 14,000 on two cores; a cluster waits for followers, too."""
MOST_BYTES_PER_S = 100_000_000
"""By the same. A gp3 volume takes 125 MB/s, and each write goes to the log and to the file."""
_PAGE_BYTES, _PAGE_FILL, _PAGE_HEADER, _LEAST_PER_PAGE = 4_096, 0.9, 16, 2
_REVISION_BYTES = 55
"""Beside key and value: the page's entry (16), the revision (17), create, mod, version and lengths (22 at most)."""
_UNEVEN = 1.02
"""Pages that a transaction leaves less than full, and the file's growth in steps: 1 % to 2 % in measurements."""
_OVERWRITING = (Kind.OVERWRITE, Kind.UPDATE, Kind.READ_MODIFY_WRITE)
_JSON_BYTES = 150
"""The names and signs around a product's values."""


def space_rules(trial: TrialFields) -> Iterator[BrokenRule]:
    """What a trial writes has to fit into the quota; beyond it every write is refused."""
    if not isinstance(trial.target, EtcdTarget):
        return
    needed, quota = bytes_written(trial), trial.target.quota_bytes
    if needed > quota:
        message = f"write some {needed / GIB:.1f} GiB to etcd, more than its quota of {quota / GIB:g} GiB"
        remedy = "Lower rates, durations, records or value_bytes, or split the trial: tear-down makes space."
        if trial.workload is None and trial.record.operation == "put" and trial.target.endpoint is None:
            remedy += f' Of "update" as record.operation, only the last {_HISTORY_S // 60} minutes are kept.'
        if trial.target.endpoint and quota < QUOTA_BYTES:
            remedy += " If your server's --quota-backend-bytes is larger, say so in target.quota_gib."
        yield BrokenRule("phases", message, remedy)


def bytes_written(trial: TrialFields) -> float:
    """Return how large etcd's file becomes at most: records, new keys, and what is overwritten until a compaction."""
    new, over = _shares(trial)
    events = {phase.name: _events(trial, phase) for phase in trial.run_phases}
    total = sum(events.values())
    overwritten = over * total
    if trial.target.endpoint is None:
        per_s = max(events[phase.name] / phase.length_s for phase in trial.run_phases)
        overwritten = min(overwritten, over * per_s * _HISTORY_S)
    kept = (trial.preloaded_keys + new * total + overwritten) * revision_bytes(_payload_bytes(trial))
    return kept + (total * revision_bytes(trial.record.key_bytes) if trial.record.operation == "delete" else 0)


def revision_bytes(payload_bytes: int) -> float:
    """Return how much of the file a revision takes whose key and value have so many bytes together."""
    entry = payload_bytes + _REVISION_BYTES
    in_page = max(_LEAST_PER_PAGE, int(_PAGE_BYTES * _PAGE_FILL - _PAGE_HEADER) // entry)
    pages = -(-(_PAGE_HEADER + in_page * entry) // _PAGE_BYTES)
    return _UNEVEN * pages * _PAGE_BYTES / in_page


def _shares(trial: TrialFields) -> tuple[float, float]:
    """Return which shares of the events make a new key, and write over an existing one."""
    if trial.workload is None:
        return float(trial.record.operation == "put"), float(trial.record.operation == "update")
    mix = trial.workload.mix
    return mix.insert / mix.total, sum(mix.weights[kind] for kind in _OVERWRITING) / mix.total


def _events(trial: TrialFields, phase: Phase) -> float:
    """Return how many events a phase offers at most, of clients in a loop only as many as etcd commits writes."""
    events, share = trial.events_of(phase), sum(_shares(trial))
    if phase.is_open or not share:
        return events
    writes_per_s = min(MOST_WRITES_PER_S, MOST_BYTES_PER_S / _payload_bytes(trial))
    return min(events, writes_per_s * phase.length_s / share)


def _payload_bytes(trial: TrialFields) -> int:
    """Return how large key and value are together; a product's value is JSON."""
    if trial.workload is None:
        return trial.record.key_bytes + math.ceil(trial.record.mean_value_bytes)
    record = trial.workload.record
    in_json = isinstance(record, ProductRecord)
    return record.key_bytes + record.value_bytes + (_JSON_BYTES if in_json else 0)


def _phase_rules(trial: TrialFields) -> Iterator[BrokenRule]:
    yield from repeated_names("phases", [phase.name for phase in trial.phases])
    probes = {phase.name for phase in trial.run_phases if phase.probe}
    for index, phase in enumerate(trial.phases):
        if not phase.probe and phase.name in probes:
            message = "is the name of a probe of find_rate"
            yield BrokenRule(f"phases[{index}].name", message, "Give the phase another name.")
    if not any(phase.measured for phase in trial.phases):
        yield BrokenRule(
            "phases[0].measured", "is false, as in every phase", "Set measured: true on at least one phase."
        )


def _endpoint_rules(trial: TrialFields) -> Iterator[BrokenRule]:
    target = trial.target
    if isinstance(target, DynamoDbTarget) and target.endpoint and target.tls is target.endpoint.startswith("http://"):
        yield BrokenRule("target.tls", "says otherwise than the endpoint's URL", "Remove it.")
    if isinstance(target, CassandraTarget) and target.endpoint and target.host:
        yield BrokenRule("target.host", "is one of the stack's, and target.endpoint names a server", "Remove one.")


def _published_rules(trial: TrialFields) -> Iterator[BrokenRule]:
    """Published numbers have to name windows that are measured."""
    windows = [window.name for phase in trial.phases for window in phase.all_windows()]
    known = ", ".join(f'"{name}"' for name in dict.fromkeys(windows))
    for index, published in enumerate(trial.published):
        for rule in _metric_rules(trial, published):
            yield rule._replace(at=f"published[{index}].{rule.at}")
        if published.window is None and len(windows) > 1 and published.metric not in DAG_METRICS:
            message = "is missing, and there are several measured windows"
            yield BrokenRule(f"published[{index}].window", message, f"Name one of {known}.")
        own = published.over_trial is None
        for field, name in (("window", published.window), ("over", published.over if own else None)):
            if name is None or windows.count(name) == 1:
                continue
            if name in windows:
                message, remedy = "is the name of windows in several phases", "Give those windows names of their own."
            else:
                message, remedy = "names no measured window", f"Name one of {known}, or remove it."
            yield BrokenRule(f"published[{index}].{field}", message, remedy)


def _metric_rules(trial: TrialFields, published: Published) -> Iterator[BrokenRule]:
    """A metric is one that the trial has."""
    if published.metric == "ks" and not (isinstance(trial.target, DynamoDbTarget) and trial.target.same_sandbox):
        message = "is ks, the clock check's distance, and this trial has no same_sandbox"
        yield BrokenRule("metric", message, "Move it to the trial with same_sandbox: true.")
    if published.metric in DAG_METRICS and not trial.dags:
        message = f"is {published.metric}, which only dataflow has"
        yield BrokenRule("metric", message, "Move it to a trial of dataflow.")
    if published.metric in INVOCATION_METRICS and not any(phase.invoked for phase in trial.phases):
        message = f"is {published.metric}, which only phases with invoked have"
        yield BrokenRule("metric", message, "Move it to a trial with one, or remove it.")
    if published.metric in WRITE_METRICS and (trial.workload is not None or trial.dags):
        message = f"is {published.metric}, which only triggers have"
        yield BrokenRule("metric", message, "Use p50: operations are scored by it.")
    if published.count is not None and trial.workload is None:
        message = "belongs to the table of percentiles, which only operations have"
        yield BrokenRule("count", message, "Remove it.")


TRIAL_RULES = (
    load.concurrency_rules,
    load.size_rules,
    load.gapless_rules,
    load.delete_rules,
    load.watch_rules,
    load.history_rules,
    load.scale_rules,
    _phase_rules,
    _endpoint_rules,
    _published_rules,
    load.log_rules,
    load.find_rules,
    load.same_sandbox_rules,
    space_rules,
    load.filter_rules,
    experiments.client_rules,
    experiments.dsql_rules,
)
OWN_RULES = {
    "trigger": (
        experiments.trigger_rules,
        experiments.no_invoked_rules,
        values.values_rules,
        experiments.no_dag_rules,
    ),
    "operations": (experiments.operation_rules, experiments.invoked_rules, experiments.no_dag_rules),
    "dataflow": (
        experiments.dag_rules,
        experiments.medium_rules,
        experiments.field_rules,
        experiments.no_invoked_rules,
    ),
}
"""What one experiment demands, by its name."""
