from __future__ import annotations

import time

import numpy as np
import pytest
from tests.integration.stages.watched_etcd import START_AHEAD_NS, watched_etcd

from stepbench.contracts.plan import LoadStep
from stepbench.contracts.target import EtcdTarget
from stepbench.contracts.tasks import RunWriterInput
from stepbench.local.processes import LocalStore
from stepbench.records.columns import concatenate, decode
from stepbench.records.t4 import parse_item
from stepbench.stages.run_writer import run_writer
from stepbench.stages.services import Services
from stepbench.testing.records import REF, trial_spec, writer_item

pytestmark = [pytest.mark.emulator, pytest.mark.stores]

SPEC = trial_spec(EtcdTarget(store="etcd"), LoadStep(rate_per_s=100, count=200))


def test_every_write_to_a_real_etcd_arrives_after_it_was_sent(services: Services, etcd_server: LocalStore) -> None:
    """Writer and watcher as the state machine runs them, on their real loops, with the real driver between them."""
    with watched_etcd(services, etcd_server, SPEC) as reached:
        output = run_writer(RunWriterInput(item=writer_item(time.time_ns() + START_AHEAD_NS), attempt=0), reached)
    assert output.ok == 200
    files = reached.table.files(REF.tag)
    sent = concatenate([decode(file.key, reached.runs.get_bytes(file.key)).rows for file in files])
    seen = np.concatenate([parse_item(item).entries for item in reached.table.t4_items(REF.tag)])
    seen = seen[np.argsort(seen["sequence"])]
    assert seen["sequence"].tolist() == list(range(200))
    assert (seen["t4_ns"] > sent.t1_ns).all()
    assert [str(position) for position in seen["position"]] == list(sent.tokens)
