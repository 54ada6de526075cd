"""A trial of operations on a real server, stage by stage, from prepared records to balanced accounting."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.samples.records import REF, writer_item
from tests.samples.services import MemoryServices

from stepbench.clock import SystemClock
from stepbench.contracts.phase import PhaseSchedule
from stepbench.contracts.plan import TrialPlan, TrialSpec
from stepbench.contracts.tasks import (
    AwaitArrivalsInput,
    AwaitTargetInput,
    PrepareTargetInput,
    RunWriterInput,
    RunWriterOutput,
    StateError,
    TearDownTargetInput,
)
from stepbench.contracts.workload import Kind
from stepbench.model.request import Outcome
from stepbench.records.join.reader import read_records
from stepbench.records.join.sent import UNRECORDED
from stepbench.records.join.trial import account
from stepbench.records.storage import layout
from stepbench.stages.await_arrivals import await_arrivals
from stepbench.stages.await_target import await_target
from stepbench.stages.prepare_target import prepare_target
from stepbench.stages.run_writer import Bench, run_writer
from stepbench.stages.tear_down_target import tear_down_target
from stepbench_tools.local.processes import terminate
from stepbench_tools.local.stores.wheels import start_valkey

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.contracts.result import Accounting
    from stepbench.records.join.joined import Joined
    from stepbench_tools.local.stores import LocalStore

pytestmark = pytest.mark.stores
LEAD_S = 3
"""Ten times what a writer takes to get ready: what is late is not sent."""
BENCH = Bench(beat_s=0.1, flush_s=0.25, drain_s=2, grace_s=30)
WORKLOAD = {"mix": {"read": 50, "insert": 20, "update": 30}, "record": {"shape": "product"}, "records": 200}


@pytest.fixture(scope="module")
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalStore]:
    """Yield a Valkey from the wheel."""
    store = start_valkey(tmp_path_factory.mktemp("valkey"))
    yield store
    terminate(store.pids)


class Trial:
    """A trial of one phase, two writers at most; table and bucket are in memory, time and store are real."""

    def __init__(self, valkey: LocalStore, lead_s: float = LEAD_S, **phase: Any) -> None:  # noqa: ANN401 -- a phase's fields
        """`lead_s`: until its start; who comes later has events that are unsent."""
        fields = {
            "experiment": "operations",
            "target": {"store": "redis"},
            "workload": WORKLOAD,
            "phases": [{"name": "load", **phase}],
            "writers": 2,
        }
        plan = TrialPlan.model_validate(fields)
        self.spec = TrialSpec(run_id=REF.run_id, index=0, name="redis", tag=REF.tag, plan=plan, estimate_usd=0)
        self.memory = MemoryServices(SystemClock(), redis_endpoint=valkey.endpoint)
        self.services = self.memory.services
        self.services.runs.put_model(layout.trial_key(REF, "trial.json"), self.spec)
        prepared = prepare_target(PrepareTargetInput(ref=REF, execution_arn="arn:one"), self.services)
        assert prepared.lanes == ()
        assert await_target(AwaitTargetInput(ref=REF, ready_by=prepared.ready_by), self.services).ready
        self.start_at_ns = self.services.clock.now_ns() + round(lead_s * 1e9)
        schedule = PhaseSchedule(start_at_ns=self.start_at_ns)
        self.services.runs.put_model(layout.phase_key(REF, 0, "plan.json"), schedule)

    def write(self, writer: int, attempt: int = 0) -> RunWriterOutput:
        """Make one attempt."""
        task = RunWriterInput(item=writer_item(self.start_at_ns, writer=writer), attempt=attempt)
        return run_writer(task, self.services, bench=BENCH)

    def joined(self) -> Joined:
        """Join the rows of the column files."""
        return read_records(self.spec, self.services.runs, self.services.table).joined

    def tear_down(self) -> None:
        """Tear down until nothing is left."""
        assert await_arrivals(AwaitArrivalsInput(ref=REF), self.services).done
        while not tear_down_target(TearDownTargetInput(ref=REF, failure=StateError()), self.services).done:
            pass


def account_for(joined: Joined) -> Accounting:
    """Return the accounting of everything; raise where it does not balance."""
    return account(joined, np.ones(joined.outcome.size, dtype=np.bool_))


def test_two_writers_share_the_clients_and_every_operation_is_accounted_for(valkey: LocalStore) -> None:
    """Prepared, probed, offered, flushed, read back, joined, torn down: all of it together."""
    trial = Trial(valkey, closed={"clients": 5, "duration_s": 2, "think_ms": 1})
    outputs = [RunWriterOutput(sent=0, ok=0, failed=0, unknown=0, unsent=0)] * 2

    def run(writer: int) -> None:
        outputs[writer] = trial.write(writer)

    writers = [threading.Thread(target=run, args=(writer,)) for writer in (0, 1)]
    for each in writers:
        each.start()
    for each in writers:
        each.join(60)
    joined = trial.joined()
    account = account_for(joined)
    assert account.ok == account.offered == sum(output.ok for output in outputs) > 100
    assert set(joined.extras["client"].tolist()) == set(range(5))
    assert set(joined.extras["kind"].tolist()) == {Kind.READ, Kind.INSERT, Kind.UPDATE}
    assert (joined.t0_ns <= joined.t1_ns).all()
    assert (joined.t1_ns < joined.t2_ns).all()
    assert len(trial.services.table.files(REF.tag)) > len(outputs)
    trial.tear_down()


def test_an_attempt_that_is_overtaken_and_the_one_that_follows_add_up(valkey: LocalStore) -> None:
    """A retry begins where the clock is; what the first had begun and lost with a file is unrecorded, and no more."""
    trial = Trial(valkey, closed={"clients": 4, "duration_s": 6, "think_ms": 2})
    later: list[RunWriterOutput] = []
    retry = threading.Timer(LEAD_S + 1, lambda: later.append(trial.write(0, attempt=1)))
    retry.start()
    first = trial.write(0)
    retry.join(60)
    joined = trial.joined()
    assert account_for(joined).ok == account_for(joined).offered == first.ok + later[0].ok
    assert np.count_nonzero(joined.attempt == 1) == later[0].ok > 50
    assert set(joined.outcome.tolist()) == {Outcome.OK}
    lost = [file for file in trial.services.table.files(REF.tag) if file.attempt_id.endswith("-00")][1]
    del trial.memory.bucket.objects[lost.key]
    assert account_for(trial.joined()).unrecorded == lost.rows
    assert set(trial.joined().attempt[trial.joined().outcome == UNRECORDED].tolist()) == {0}
    trial.tear_down()


def test_operations_at_a_rate_are_sent_when_they_are_due(valkey: LocalStore) -> None:
    """Open loop has the same store, records and accounting."""
    trial = Trial(valkey, load=[{"rate_per_s": 200, "duration_s": 1}])
    assert trial.write(1).ok == 100
    joined = trial.joined()
    assert (account_for(joined).ok, account_for(joined).unsent) == (100, 100)
    assert set(joined.extras["client"][joined.outcome == Outcome.OK].tolist()) <= set(range(1, 129, 2))
    trial.tear_down()
