from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from tests.integration.stages.watched_etcd import START_AHEAD_NS, watched_etcd

from stepbench.contracts.phase_documents import PhaseSchedule, PrecisionLooks
from stepbench.contracts.plan import LoadStep, Phase, TrialSpec, Until
from stepbench.contracts.target import EtcdTarget
from stepbench.contracts.tasks import CheckPrecisionInput, RunWriterInput
from stepbench.drivers.protocol import Outcome
from stepbench.local.processes import LocalStore
from stepbench.records import layout
from stepbench.records.books import account
from stepbench.records.reader import read_records
from stepbench.stages.check_precision import check_precision
from stepbench.stages.run_writer import run_writer
from stepbench.stages.services import Services
from stepbench.testing.records import REF, trial_spec, writer_item

pytestmark = [pytest.mark.emulator, pytest.mark.stores]

LONGEST_S, RATE_PER_S = 120, 100
UNTIL = Until(metric="p50", relative_width=2, max_events=LONGEST_S * RATE_PER_S)
SPEC = trial_spec(
    EtcdTarget(store="etcd"),
    phases=(Phase(name="measured", load=(LoadStep(rate_per_s=RATE_PER_S, duration_s=3),), until=UNTIL),),
)
WRITERS = 2


def test_a_real_phase_ends_when_it_is_sure_with_balanced_books(services: Services, etcd_server: LocalStore) -> None:
    """Two writers, a watcher and the looks side by side: all is offered until the stop, and nothing after."""
    spec = SPEC.model_copy(update={"plan": SPEC.plan.model_copy(update={"writers": WRITERS})})
    with watched_etcd(services, etcd_server, spec) as reached:
        start_ns = time.time_ns() + START_AHEAD_NS
        reached.runs.put_model(layout.phase_key(REF, 0, "plan.json"), PhaseSchedule(start_at_ns=start_ns))
        sent = offered_until_sure(reached, start_ns)
    check_records(reached, spec, start_ns, sent)


def offered_until_sure(services: Services, start_ns: int) -> int:
    """Run writers and looks as the state machine does; how many events were sent."""
    items = [writer_item(start_ns, writer=writer) for writer in range(WRITERS)]
    with ThreadPoolExecutor(WRITERS) as writers:
        offering = [writers.submit(run_writer, RunWriterInput(item=item, attempt=0), services) for item in items]
        while not (answer := check_precision(CheckPrecisionInput(ref=REF, phase=0), services)).done:
            time.sleep(max(0.0, answer.next_at.timestamp() - time.time()))
        outputs = [each.result(60) for each in offering]
    assert [output.unsent for output in outputs] == [0, 0]
    return sum(output.sent for output in outputs)


def check_records(services: Services, spec: TrialSpec, start_ns: int, sent: int) -> None:
    """The stop stands where it was said, and the books hold what was due before it, all of it, and nothing else."""
    looks = services.runs.get_model(layout.phase_key(REF, 0, "until.json"), PrecisionLooks)
    stop_ns = services.table.stop_at_ns(REF.tag, 0)
    assert looks.reason == "sure"
    assert stop_ns is not None
    joined = read_records(spec, services.runs, services.table).joined()
    due = joined.t0_ns < stop_ns
    assert (joined.outcome[due] == Outcome.OK).all()
    assert not joined.offered[~due].any()
    books = account(joined, np.ones(due.size, dtype=np.bool_))
    assert (books.offered, books.ok, books.received, books.lost) == (sent, sent, sent, 0)
    assert sent == -(-(stop_ns - start_ns) * RATE_PER_S // 10**9) < LONGEST_S * RATE_PER_S
