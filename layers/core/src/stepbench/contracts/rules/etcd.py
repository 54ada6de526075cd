"""
What a trial writes to etcd, against the space that etcd has: beyond its quota it takes nothing any more.

Its file holds a revision for every write, in pages of 4 KiB that are filled to 90 %. What has been overwritten stays
until a compaction. Tear-down compacts and defragments, so each trial begins with an empty file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench.contracts.base import BrokenRule
from stepbench.contracts.target import ETCD_QUOTA_GIB, EtcdTarget
from stepbench.contracts.workload import Kind, ProductRecord

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.contracts.phase import Phase
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
    if phase.closed is None or not share:
        return events
    writes_per_s = min(MOST_WRITES_PER_S, MOST_BYTES_PER_S / _payload_bytes(trial))
    return min(events, writes_per_s * phase.length_s / share)


def _payload_bytes(trial: TrialFields) -> int:
    """Return how large key and value are together; a product's value is JSON."""
    record = trial.workload.record if trial.workload else trial.record
    in_json = isinstance(record, ProductRecord)
    return record.key_bytes + record.value_bytes + (_JSON_BYTES if in_json else 0)
