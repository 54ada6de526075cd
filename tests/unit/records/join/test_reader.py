from __future__ import annotations

from tests.samples.finished_trials import FinishedTrial
from tests.samples.records import t4_item
from tests.samples.services import MemoryServices, small_plan, stored_trial

from stepbench.records.formats.deliveries import UNKNOWN_STORE
from stepbench.records.formats.t4 import Entry, encode_fallback
from stepbench.records.join.reader import count_malformed, planned_starts, read_records
from stepbench.records.storage import layout

START_NS = 1_700_000_000_000_000_000


def finished() -> tuple[MemoryServices, FinishedTrial]:
    """Store two events, sent and delivered."""
    memory = MemoryServices()
    plan = small_plan()
    trial = FinishedTrial(memory.services, stored_trial(memory.services, plan), plan, START_NS)
    trial.phase(0)
    return memory, trial


def test_everything_that_was_left_is_found() -> None:
    """Schedule, rows, arrivals: and together they are the whole story."""
    memory, trial = finished()
    spec = memory.services.trial(trial.ref)
    records = read_records(spec, memory.services.runs, memory.services.table)
    assert spec.ref == trial.ref
    assert records.starts_ns == {0: START_NS}
    assert records.started == {"00-0000-0000-00"}
    joined = records.joined
    assert (joined.t4_ns - joined.t1_ns).tolist() == trial.latency_ns[0].tolist()


def test_a_column_file_counts_without_its_pointer() -> None:
    """The pointer is written after the file; a sandbox that dies in between has recorded all the same."""
    memory, trial = finished()
    for key in [key for key in memory.table.items if key[1].startswith(layout.FILE)]:
        del memory.table.items[key]
    spec = memory.services.trial(trial.ref)
    assert len(read_records(spec, memory.services.runs, memory.services.table).files) == 1


def test_items_in_the_bucket_count_once() -> None:
    """One went there because the table was down; another is in both, since only the table's answer was lost."""
    memory, trial = finished()
    runs, table, tag = memory.services.runs, memory.services.table, trial.ref.tag
    stored = next(iter(table.t4_items(tag)))
    both = {name: value for name, value in stored.items() if name not in {"pk", "sk", "expires_at"}}
    runs.put_bytes(f"{layout.t4_fallback_prefix(tag)}a.json", encode_fallback(stored["sk"], both))
    alone = t4_item([Entry(0, 0, 0, 0, 0, 1, START_NS)])
    runs.put_bytes(layout.t4_fallback_key(tag, "b", START_NS), encode_fallback(layout.t4_sk("b", START_NS), alone))
    records = read_records(memory.services.trial(trial.ref), runs, table)
    assert records.in_fallback == 1
    assert len(records.items) == 3


def test_what_does_not_decode_is_named_and_the_rest_is_read() -> None:
    """One bad object must not cost a run of hours."""
    memory, trial = finished()
    runs, table, ref = memory.services.runs, memory.services.table, trial.ref
    runs.put_bytes(layout.column_file_key(ref, "00-0000-0000-00", 1), b"junk")
    runs.put_bytes(layout.t4_fallback_key(ref.tag, "b", 1), b"junk")
    table.put_t4(ref.tag, "c", 2, {"n": 5, "entries": b""})
    records = read_records(memory.services.trial(ref), runs, table)
    assert ["000001.sbc" in message for message in records.damaged] == [True]
    assert len(records.damaged_items) == 2
    assert len(records.items) == 2


def test_phases_without_a_plan_have_not_begun() -> None:
    """PlanPhase is what makes a phase's schedule."""
    memory = MemoryServices()
    ref = stored_trial(memory.services)
    assert planned_starts(memory.services.trial(ref), memory.services.runs) == {}


def test_malformed_deliveries_are_counted_in_both_places_within_the_trial() -> None:
    """In the table by store, or under no store at all; in the bucket while the table was down."""
    memory = MemoryServices()
    runs, table = memory.services.runs, memory.services.table
    for store, at_ns in (("s3", 100), (UNKNOWN_STORE, 150), ("s3", 900), ("etcd", 120)):
        table.put_malformed(store, at_ns, "request", 0, "junk")
    for at_ns in (120, 901):
        runs.put_bytes(layout.malformed_fallback_key("s3", at_ns, "request", 0), b"junk")
    # The table took this one as well, and only its answer was lost.
    table.put_malformed("s3", 120, "request", 0, "junk")
    assert count_malformed("s3", runs, table, 50, 500) == 3
