"""A trial on a real etcd whose watch is held, for the tests that write to it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.samples.records import REF, concatenate, trial_spec, writer_item

from stepbench.contracts.phase import LoadStep, Phase, PhaseSchedule, PrecisionLooks, Until
from stepbench.contracts.plan import TrialSpec
from stepbench.contracts.target import EtcdTarget
from stepbench.contracts.tasks import CheckPrecisionInput, RunWriterInput, WatchChangesInput
from stepbench.drivers.registry import lease_target
from stepbench.model.request import Outcome
from stepbench.records.formats.columns import decode
from stepbench.records.formats.t4_items import parse_item
from stepbench.records.join.reader import read_records
from stepbench.records.join.trial import account
from stepbench.records.storage import layout
from stepbench.records.storage.watch_log import read_watches
from stepbench.services import Services, connect
from stepbench.stages.check_precision import check_precision
from stepbench.stages.run_writer import Bench, run_writer
from stepbench.stages.watch_changes import WatchPace, watch_changes
from stepbench_tools.local.stores import LocalStore

pytestmark = [pytest.mark.emulator, pytest.mark.stores]
ROOT = Path(__file__).parents[3]
START_AHEAD_NS = 3_000_000_000
"""Time for a writer to get ready: ten times what it takes on a machine with nothing else to do."""
PATIENT = Bench(beat_s=0.2, flush_s=0.5, grace_s=30)
"""A machine that stands still for seconds sends late, and everything all the same."""


def prepared(services: Services, etcd_server: LocalStore, spec: TrialSpec) -> Services:
    """Return services that reach the server, with a trial that holds it."""
    settings = services.settings.model_copy(update={"etcd_endpoint": etcd_server.endpoint})
    services = replace(services, settings=settings)
    services.runs.put_model(layout.trial_key(REF, "trial.json"), spec)
    services.table.take_lease(lease_target(spec, settings), REF, "arn", time.time_ns())
    return services


@contextmanager
def watched_etcd(services: Services, etcd_server: LocalStore, spec: TrialSpec) -> Iterator[Services]:
    """Yield services that reach the server; inside, lane 0 watches the trial, and stops at the end."""
    services = prepared(services, etcd_server, spec)
    seen = len(read_watches(services.table, REF.tag))
    with ThreadPoolExecutor(1) as aside:
        pace = WatchPace(tick_s=0.2)
        watching = aside.submit(lambda: watch_changes(WatchChangesInput(ref=REF, lane=0), services, pace=pace))
        try:
            while len(read_watches(services.table, REF.tag)) == seen and not watching.done():
                time.sleep(0.05)
            yield services
        finally:
            services.table.set_flag(REF.tag, layout.STOP_WATCHING, "done")
        assert watching.result(30).stopped


SPEC = trial_spec(EtcdTarget(store="etcd"), LoadStep(rate_per_s=100, count=200))


def test_every_write_to_a_real_etcd_arrives_after_it_was_sent(services: Services, etcd_server: LocalStore) -> None:
    """Writer and watcher as the state machine runs them, on their real loops, with the real driver between them."""
    with watched_etcd(services, etcd_server, SPEC) as reached:
        task = RunWriterInput(item=writer_item(time.time_ns() + START_AHEAD_NS), attempt=0)
        output = run_writer(task, reached, bench=PATIENT)
    assert output.ok == 200
    files = reached.table.files(REF.tag)
    sent = concatenate([decode(file.key, reached.runs.get_bytes(file.key)).rows for file in files])
    seen = np.concatenate([parse_item(item).entries for item in reached.table.t4_items(REF.tag)])
    seen = seen[np.argsort(seen["sequence"])]
    assert seen["sequence"].tolist() == list(range(200))
    assert (seen["t4_ns"] > sent.t1_ns).all()
    tokens = [sent.tokens[place] for place in np.argsort(sent.sequence)]  # a flush may come between two answers
    assert [str(position) for position in seen["position"]] == tokens


def hold_watch() -> None:
    """Hold lane 0's watch, in a process of its own."""
    watch_changes(WatchChangesInput(ref=REF, lane=0), connect(os.environ), pace=WatchPace(tick_s=0.2))


@contextmanager
def watched_by_a_process(services: Services) -> Iterator[None]:
    """Yield once a process holds the watch; it is killed at the end."""
    settings = {name.upper(): str(value) for name, value in services.settings.model_dump().items() if value != ""}
    command = f"from {__name__} import hold_watch; hold_watch()"
    with subprocess.Popen([sys.executable, "-c", command], env={**os.environ, **settings}, cwd=ROOT) as watcher:
        try:
            while not read_watches(services.table, REF.tag):
                assert watcher.poll() is None
                time.sleep(0.05)
            yield
        finally:
            watcher.kill()


def offer_phase(services: Services, phase: int, count: int) -> None:
    """Plan a phase and offer it, to its end."""
    start_ns = time.time_ns() + START_AHEAD_NS
    services.runs.put_model(layout.phase_key(REF, phase, "plan.json"), PhaseSchedule(start_at_ns=start_ns))
    task = RunWriterInput(item=writer_item(start_ns, phase=phase), attempt=0)
    assert run_writer(task, services, bench=PATIENT).ok == count


SEEN, UNSEEN = (Phase(name=name, load=(LoadStep(rate_per_s=100, count=50),)) for name in ("seen", "unseen"))
TWO_PHASES = trial_spec(EtcdTarget(store="etcd"), phases=(SEEN, UNSEEN))


def test_what_happens_between_a_watcher_that_is_killed_and_the_next_is_in_a_watch_gap(
    services: Services, etcd_server: LocalStore
) -> None:
    """Nobody watches the second phase: its 50 events would pass for seconds of etcd's latency."""
    services = prepared(services, etcd_server, TWO_PHASES)
    with watched_by_a_process(services):
        offer_phase(services, 0, 50)
        while services.table.t4_count(REF.tag) < 50:
            time.sleep(0.05)
    offer_phase(services, 1, 50)
    with watched_etcd(services, etcd_server, TWO_PHASES):
        while services.table.t4_count(REF.tag) < 100:
            time.sleep(0.05)
    records = read_records(TWO_PHASES, services.runs, services.table)
    assert len(records.watch_gaps) == 1
    assert records.joined.watch_gap.tolist() == [False] * 50 + [True] * 50
    found = account(records.joined, np.ones(100, dtype=np.bool_))
    assert (found.ok_arrived, found.watch_gap, found.lost) == (100, 50, 0)


LONGEST_S, RATE_PER_S = 120, 100
UNTIL = Until(metric="p50", relative_width=2, max_events=LONGEST_S * RATE_PER_S)
UNTIL_SPEC = trial_spec(
    EtcdTarget(store="etcd"),
    phases=(Phase(name="measured", load=(LoadStep(rate_per_s=RATE_PER_S, duration_s=3),), until=UNTIL),),
)
WRITERS, SETTLE_S, STOP_LEAD_S = 2, 3.0, 3.0


def test_a_real_phase_ends_when_it_is_sure_with_balanced_books(
    services: Services, etcd_server: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two writers, a watcher and the looks side by side: all is offered until the stop, and nothing after."""
    monkeypatch.setattr("stepbench.analysis.precision.SETTLE_S", SETTLE_S)
    monkeypatch.setattr("stepbench.stages.check_precision.STOP_LEAD_S", STOP_LEAD_S)
    spec = UNTIL_SPEC.model_copy(update={"plan": UNTIL_SPEC.plan.model_copy(update={"writers": WRITERS})})
    with watched_etcd(services, etcd_server, spec) as reached:
        start_ns = time.time_ns() + START_AHEAD_NS
        reached.runs.put_model(layout.phase_key(REF, 0, "plan.json"), PhaseSchedule(start_at_ns=start_ns))
        sent = offered_until_sure(reached, start_ns)
    check_records(reached, spec, start_ns, sent)


def offered_until_sure(services: Services, start_ns: int) -> int:
    """Run writers and looks as the state machine does; how many events were sent."""
    items = [writer_item(start_ns, writer=writer) for writer in range(WRITERS)]
    with ThreadPoolExecutor(WRITERS) as writers:
        offering = [
            writers.submit(run_writer, RunWriterInput(item=item, attempt=0), services, bench=PATIENT) for item in items
        ]
        while not (answer := check_precision(CheckPrecisionInput(ref=REF, phase=0), services)).done:
            time.sleep(max(0.0, answer.next_at.timestamp() - time.time()))
        outputs = [each.result(60) for each in offering]
    assert [output.unsent for output in outputs] == [0, 0]
    return sum(output.sent for output in outputs)


def check_records(services: Services, spec: TrialSpec, start_ns: int, sent: int) -> None:
    """Check that the stop stands where it was said, and that the accounting holds just what was due before it."""
    looks = services.runs.get_model(layout.phase_key(REF, 0, "until.json"), PrecisionLooks)
    stop_ns = services.table.stop_at_ns(REF.tag, 0)
    assert looks.reason == "sure"
    assert stop_ns is not None
    joined = read_records(spec, services.runs, services.table).joined
    due = joined.t0_ns < stop_ns
    assert (joined.outcome[due] == Outcome.OK).all()
    assert not joined.offered[~due].any()
    accounting = account(joined, np.ones(due.size, dtype=np.bool_))
    assert (accounting.offered, accounting.ok, accounting.received, accounting.lost) == (sent, sent, sent, 0)
    assert sent == -(-(stop_ns - start_ns) * RATE_PER_S // 10**9) < LONGEST_S * RATE_PER_S
