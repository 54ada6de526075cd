"""Keys in the results bucket and the results table. The only place that spells them."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stepbench.contracts.tasks import TrialRef

T4_SHARDS = 16
"""One partition key takes 1,000 writes a second; a trial's t4 items are spread over so many."""

# --- results bucket ------------------------------------------------------------------------------------------


def run_key(run_id: str, name: str) -> str:
    """A run's own document: plan.json, summary.json, report.html, manifest.json, floors.json."""
    return f"runs/{run_id}/{name}"


def trial_key(ref: TrialRef, name: str) -> str:
    """A trial's document: trial.json, result.json, failure.json, records.parquet."""
    return f"runs/{ref.run_id}/trials/{ref.trial:04d}/{name}"


def phase_key(ref: TrialRef, phase: int, name: str) -> str:
    """
    A phase's document.

    plan.json (PhaseSchedule), items.json (WriterItems), until.json (PrecisionLooks), utilisation.json (Utilisation).
    """
    return trial_key(ref, f"phases/{phase:02d}/{name}")


def column_file_key(ref: TrialRef, attempt_id: str, flush: int) -> str:
    """One flush of one attempt; `attempt_id` as `attempt_id()` spells it."""
    return trial_key(ref, f"writers/{attempt_id}/{flush:06d}.sbc")


def attempt_id(phase: int, writer: int, slice_: int, attempt: int) -> str:
    """`pp-wwww-ssss-aa` in hexadecimal."""
    return f"{phase:02x}-{writer:04x}-{slice_:04x}-{attempt:02x}"


def attempt_names(attempt_id: str) -> tuple[int, int, int, int]:
    """Phase, writer, slice and attempt of such an id."""
    phase, writer, slice_, attempt = (int(part, 16) for part in attempt_id.split("-"))
    return phase, writer, slice_, attempt


def phase_attempts(phase: int) -> str:
    """What the ids of a phase's attempts begin with."""
    return f"{phase:02x}-"


def t4_fallback_prefix(tag: str) -> str:
    """Where a trial's t4 items went that the table did not take (see `records.t4.decode_fallback`)."""
    return f"t4-fallback/{tag}/"


def t4_fallback_key(tag: str, request_id: str, t4_ns: int) -> str:
    """One such item. A receiver knows only the tag, so this stands outside the trial's folder."""
    return f"{t4_fallback_prefix(tag)}{request_id}-{t4_ns:020d}.json"


def malformed_fallback_prefix(store: str) -> str:
    """Malformed events of a store that the table did not take."""
    return f"malformed-fallback/{store}/"


def malformed_fallback_key(store: str, t4_ns: int, request_id: str, index: int) -> str:
    """A malformed event that the table did not take."""
    return f"{malformed_fallback_prefix(store)}{t4_ns:020d}-{request_id}-{index:05d}.txt"


# --- results table: partition keys ---------------------------------------------------------------------------


LEASES_PK = "leases"
"""All leases; sort key = target (such as `s3#bucket-name`). One partition, so that the sweeper needs no scan."""


def trial_pk(tag: str) -> str:
    """Everything small about one trial; sort keys below."""
    return f"trial#{tag}"


def t4_pk(tag: str, shard: int) -> str:
    """One shard of a trial's t4 items."""
    return f"t4#{tag}#{shard:02d}"


def t4_shard(request_id: str) -> int:
    """The shard of an invocation: uniform over request ids, the same for a retry."""
    return zlib.crc32(request_id.encode()) % T4_SHARDS


def t4_sk(request_id: str, t4_ns: int) -> str:
    """Sort key of a t4 item: a Lambda retry has the same request id and another time."""
    return f"{request_id}#{t4_ns:020d}"


UNKNOWN_STORE = "unknown"
"""Instead of a store: malformed deliveries that do not even say where they come from."""


def malformed_pk(store: str) -> str:
    """Events that carried no identity, by store; sort key = `<t4, 20 digits>#<request id>#<index>`."""
    return f"malformed#{store}"


def malformed_sk(t4_ns: int, request_id: str, index: int) -> str:
    """Sort key of a malformed event: by time, so that a trial finds those that came while it held its target."""
    return f"{t4_ns:020d}#{request_id}#{index:05d}"


MALFORMED_CHARS = 4_000
"""Of a malformed event are kept in the table: enough to see what it is."""


# --- results table: sort keys under trial_pk -----------------------------------------------------------------

CANCELLED = "cancelled"
"""Set: writers and watchers stop at once."""
STOP_AT = "stop-at#"
"""+ phase, two hexadecimal digits: its events that are due then (`at_ns`) or later are not offered."""
STOP_WATCHING = "stop-watching"
"""Set: watchers drain and end."""
HEARTBEAT = "heartbeat#"
"""+ `writer#<attempt id>` or `watcher#<lane>`: last sign of life, progress."""
STARTED = "started#"
"""+ attempt id: the attempt got as far as offering load. Without one, nothing was sent."""
FILE = "file#"
"""+ attempt id + `#` + flush: pointer to a column file."""
CLOCK = "clock#"
"""+ role + `#` + sandbox + `#` + ns: one measured clock offset."""
LOG_T4 = "log-t4"
"""Set, with the plan's `log_t4` as its reason: receivers print their t4 lines (see `records.t4_log`)."""
POSITION = "watch-position"
"""The last position that a watcher has safely recorded."""
