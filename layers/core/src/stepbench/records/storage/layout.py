"""Keys in the results bucket and the results table. The only place that spells them."""

from __future__ import annotations

import re
import zlib
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote, unquote

if TYPE_CHECKING:
    from stepbench.contracts.plan import TrialRef


class ClockSample(NamedTuple):
    """One sandbox's clock minus the reference, ns, with half the smallest round trip as bound."""

    role: str
    sandbox: str
    at_ns: int
    offset_ns: int
    bound_ns: int

    @property
    def attributes(self) -> dict[str, int]:
        """Return what its item in the results table holds besides its keys."""
        return {"offset_ns": self.offset_ns, "bound_ns": self.bound_ns}


class Watch(NamedTuple):
    """
    One watch of a pull trigger, as its watcher recorded it; ns since the epoch, by the watcher's clock.

    sandbox: as its t4 items name it. alive_ns: its last sign of life. pauses_ns: spans in which its process stood
    still, so that what arrived then was stamped afterwards.
    """

    sandbox: str
    established_ns: int
    alive_ns: int
    pauses_ns: tuple[tuple[int, int], ...] = ()


T4_SHARDS = 16
"""One partition key takes 1,000 writes a second; a trial's t4 items are spread over so many."""

# --- results bucket ------------------------------------------------------------------------------------------

DATASETS = "datasets/"
"""What the keys of all datasets begin with; locally a folder beside the runs'."""
RUNS = "runs/"


def run_key(run_id: str, name: str) -> str:
    """
    Return the key of a run's document.

    plan.json, summary.json, report.html, manifest.json, floors.json, machine.json, skipped.json,
    ended.json (EndedServers).
    """
    return f"{RUNS}{run_id}/{name}"


def machine_key(run_id: str) -> str:
    """Return the key of what was seen of the machine's speed before a local run: a `SlowSpells`."""
    return run_key(run_id, "machine.json")


def trial_key(ref: TrialRef, name: str) -> str:
    """
    Return the key of a trial's document.

    trial.json, result.json, failure.json, made.json (PreparedTarget), removed.json (TornDown), refused.json,
    records.parquet.
    """
    return f"{RUNS}{ref.run_id}/trials/{ref.trial:04d}/{name}"


TUNING = "tuning.json"


def phase_key(ref: TrialRef, phase: int, name: str) -> str:
    """
    Return the key of a phase's document.

    plan.json (PhaseSchedule), items.json (WriterItems), until.json (PrecisionLooks), utilisation.json (Utilisation),
    scale.json (what a scaling step did), `TUNING` (TuningStep).
    """
    return trial_key(ref, f"phases/{phase:02d}/{name}")


def column_file_key(ref: TrialRef, attempt_id: str, flush: int) -> str:
    """Return the key of one flush of one attempt; `attempt_id` as `attempt_id()` spells it."""
    return trial_key(ref, f"writers/{attempt_id}/{flush:06d}.sbc")


def transfer_key(ref: TrialRef, number: int, attempt: int) -> str:
    """Return the key of the rows (TransferRows) of one attempt at one process of a trial of `transfer`."""
    return f"{transfers_prefix(ref)}{number:04d}-{attempt:02x}.json"


def transfers_prefix(ref: TrialRef) -> str:
    """Return what the keys of all such rows begin with."""
    return trial_key(ref, "transfers/")


def dag_input_key(ref: TrialRef, dag: str) -> str:
    """Return the key of a DAG's input, which is made before the load."""
    return trial_key(ref, f"dags/{dag}/input.bin")


def dag_file_key(ref: TrialRef, dag: str, stage: str, name: str) -> str:
    """Return the key of a file that a stage's tasks have, which is fetched before the load."""
    return trial_key(ref, f"dags/{dag}/files/{stage}/{name}")


def dag_level_key(ref: TrialRef, dag: str, level: int) -> str:
    """Return the key of the tasks (JSON, an array of LevelTask) of a level that is too wide for an inline Map."""
    return trial_key(ref, f"dags/{dag}/levels/{level:02d}.json")


def dataset_prefix(name: str, team: str = "") -> str:
    """Return what the keys of a dataset's files begin with; with a team, of those that its runs have added."""
    folder = f"{DATASETS}{name}/"
    return f"{folder}team={quote(team, safe='')}/" if team else folder


def dataset_key(name: str, team: str, day: str, run_id: str, trial: int) -> str:
    """Return the key of what a trial of a team has added to a dataset on one day of UTC (`2025-06-01`), as Parquet."""
    return f"{dataset_prefix(name, team)}day={day}/{run_id}-{trial:04d}.parquet"


def dataset_published_key(name: str, team: str) -> str:
    """Return the key of the numbers that a team's plans have published beside a dataset: JSON."""
    return f"{dataset_prefix(name, team)}published.json"


def dataset_day(key: str) -> str:
    """Return the day of such a key; empty where it is none."""
    found = re.search(r"/team=[^/]+/day=(\d{4}-\d{2}-\d{2})/[^/]+\.parquet$", key)
    return found[1] if found else ""


def dataset_run(key: str) -> str:
    """Return the run whose trial has added the file of such a key."""
    return key.rpartition("/")[2].rpartition("-")[0]


def dataset_team(folder: str) -> str:
    """Return the team whose files a folder of a dataset holds; empty where it is no team's."""
    return unquote(folder.removeprefix("team=")) if folder.startswith("team=") else ""


def attempt_id(phase: int, writer: int, slice_: int, attempt: int) -> str:
    """Return `pp-wwww-ssss-aa` in hexadecimal."""
    return f"{phase:02x}-{writer:04x}-{slice_:04x}-{attempt:02x}"


def attempt_names(attempt_id: str) -> tuple[int, int, int, int]:
    """Return phase, writer, slice and attempt of such an id."""
    phase, writer, slice_, attempt = (int(part, 16) for part in attempt_id.split("-"))
    return phase, writer, slice_, attempt


def phase_attempts(phase: int) -> str:
    """Return what the ids of a phase's attempts begin with."""
    return f"{phase:02x}-"


def t4_fallback_prefix(tag: str) -> str:
    """Return the prefix of a trial's t4 items that the table did not take (see `decode_fallback`)."""
    return f"t4-fallback/{tag}/"


def t4_fallback_key(tag: str, request_id: str, t4_ns: int) -> str:
    """Return the key of one such item. A receiver knows only the tag, so it stands outside the trial's folder."""
    return f"{t4_fallback_prefix(tag)}{request_id}-{t4_ns:020d}.json"


def malformed_fallback_prefix(store: str) -> str:
    """Return the prefix of a store's malformed events that the table did not take."""
    return f"malformed-fallback/{store}/"


def malformed_fallback_key(store: str, t4_ns: int, request_id: str, index: int) -> str:
    """Return the key of a malformed event that the table did not take."""
    return f"{malformed_fallback_prefix(store)}{t4_ns:020d}-{request_id}-{index:05d}.txt"


# --- results table: partition keys ---------------------------------------------------------------------------

LEASES_PK = "leases"
"""All leases; sort key = target (such as `s3#bucket-name`). One partition, so that the sweeper needs no scan."""
LEFT_PK = "left"
"""What trials left that had lost their lease to another, or may have left late; sort key = `left_sk`."""
HOLDERS = "holders"
"""In place of a trial's tag: the last signs of life of runs that have held a target, since a lease leaves no trace."""
LOAD_HOSTS = "load-hosts"
"""In place of a trial's tag: signs of life of load hosts themselves, which take writers of any trial."""


def left_sk(target: str, tag: str = "") -> str:
    """Return the sort key of what a trial left in a target; without the trial what all of that target's begin with."""
    return f"{target} {tag}"


FILES = "files"
"""In place of a trial's tag: flags of files that trials download; they stay from trial to trial."""


def damaged_flag(source: str, endpoint: str, path: str) -> str:
    """Return the flag of a file that a read has found damaged; its reason is the read's error, empty once mended."""
    return f"damaged#{source}#{endpoint}#{path}"


def trial_pk(tag: str) -> str:
    """Return the partition of everything small about one trial; sort keys below."""
    return f"trial#{tag}"


def t4_pk(tag: str, shard: int) -> str:
    """Return the partition of one shard of a trial's t4 items."""
    return f"t4#{tag}#{shard:02d}"


def t4_shard(request_id: str) -> int:
    """Return the shard of an invocation: uniform over request ids, the same for a retry."""
    return zlib.crc32(request_id.encode()) % T4_SHARDS


def t4_sk(request_id: str, t4_ns: int) -> str:
    """Return the sort key of a t4 item: a Lambda retry has the same request id and another time."""
    return f"{request_id}#{t4_ns:020d}"


def t4_ns_of(sort_key: str) -> int:
    """Return the time in a t4 item's sort key."""
    return int(sort_key.rpartition("#")[2])


def lines_pk(tag: str, shard: int) -> str:
    """
    Return the partition of one shard of what a measured function's layer has put, any of `T4_SHARDS`.

    The layer (`layers/measuring/`) spells these keys too, and the stack's MeasuringPolicy what they begin with.
    """
    return f"{LINES}{tag}#{shard:02d}"


def lines_sk(t5_ns: int, request_id: str, part: int) -> str:
    """Return the sort key of one part of an invocation's lines: by time, so that what has come since is read alone."""
    return f"{lines_since(t5_ns)}#{request_id}#{part:02d}"


def lines_since(t5_ns: int) -> str:
    """Return what the sort keys of such lines are not below, of invocations that ended then or later."""
    return f"{t5_ns:020d}"


def lines_t5_ns(sort_key: str) -> int:
    """Return the time in such a sort key."""
    return int(sort_key.partition("#")[0])


LINES = "lines#"
"""What their partitions begin with."""


def dag_rows_pk(tag: str, shard: int) -> str:
    """Return the partition of one shard of the rows of a trial's tasks; the shard is that of the sort key."""
    return f"dag#{tag}#{shard:02d}"


def dag_row_sk(event: str, stage: str, index: int, attempt: int, part: int) -> str:
    """Return the sort key of one part of the row of one attempt at a task."""
    return f"{event}#{stage}#{index:04d}#{attempt:02x}#{part:02d}"


def dag_ends_pk(tag: str, shard: int) -> str:
    """Return the partition of one shard of the ends of a trial's executions; sort key = the execution's event."""
    return f"dag-end#{tag}#{shard:02d}"


def malformed_pk(store: str) -> str:
    """Return the partition of a store's events without identity; sort key = `<t4, 20 digits>#<request id>#<index>`."""
    return f"malformed#{store}"


def malformed_sk(t4_ns: int, request_id: str, index: int) -> str:
    """Return the sort key of a malformed event: by time, so that a trial finds those while it held its target."""
    return f"{t4_ns:020d}#{request_id}#{index:05d}"


MALFORMED_CHARS = 4_000
"""The table holds so much of a malformed event: enough to see what it is."""


# --- results table: sort keys under trial_pk -----------------------------------------------------------------

CANCELLED = "cancelled"
"""Set: writers stop at once, and watchers as soon as nothing more is to come."""
STOP_AT = "stop-at#"
"""+ phase, two hexadecimal digits: its events that are due then (`at_ns`) or later are not offered."""
STOP_WATCHING = "stop-watching"
"""Set: watchers drain and end."""
HEARTBEAT = "heartbeat#"
"""+ `writer#<attempt id>` or `watcher#<watch>`: last sign of life, progress; of a watch also its start."""
STARTED = "started#"
"""+ attempt id: the attempt got as far as offering load. Without one, nothing was sent."""
MISSING = "missing#"
"""+ phase, writer and slice, decimal, with `-` between: the state machine has given the slice up."""
MAP_ENDED = "map-ended#"
"""+ phase, decimal: when its Map of invocations had ended (`at`, ISO 8601), by Step Functions."""
FILE = "file#"
"""+ attempt id + `#` + flush: pointer to a column file."""
CLOCK = "clock#"
"""+ role + `#` + sandbox + `#` + ns (`clock_sk`): one measured clock offset."""
LOG_T4 = "log-t4"
"""Set, with the plan's `log_t4` as its reason: receivers print their t4 lines (see `records.storage.t4_store`)."""
WAITING = "waiting"
"""Set, with the holder as its reason: the trial waits for its target's lease, or did."""
PREPARED_FLAG = "made"
"""Set before a trial makes anything in its store; without it there is nothing to tear down."""
UNREACHED = "unreached#"
"""+ target, under the run's first trial: a trial of the run has not reached it; the reason says which, and why."""
POSITION = "watch-position"
"""The last position that a watcher has safely recorded."""


def clock_sk(sample: ClockSample) -> str:
    """Return the sort key of a measured clock offset: role, sandbox and ns."""
    return f"{CLOCK}{sample.role}#{sample.sandbox}#{sample.at_ns:020d}"
