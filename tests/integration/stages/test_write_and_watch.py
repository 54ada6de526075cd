from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from stepbench.contracts.plan import LoadStep
from stepbench.contracts.target import EtcdTarget
from stepbench.contracts.tasks import RunWriterInput, WatchChangesInput
from stepbench.drivers.registry import lease_target
from stepbench.local.processes import LocalStore
from stepbench.records import layout
from stepbench.records.columns import concatenate, decode
from stepbench.records.t4 import parse_item
from stepbench.stages.run_writer import run_writer
from stepbench.stages.services import Services
from stepbench.stages.watch_changes import WatchPace, watch_changes
from stepbench.testing.records import REF, trial_spec, writer_item

pytestmark = [pytest.mark.emulator, pytest.mark.stores]

SPEC = trial_spec(EtcdTarget(store="etcd"), LoadStep(rate_per_s=100, count=200))


def test_every_write_to_a_real_etcd_arrives_after_it_was_sent(services: Services, etcd_server: LocalStore) -> None:
    """Writer and watcher as the state machine runs them, on their real loops, with the real driver between them."""
    settings = services.settings.model_copy(update={"etcd_endpoint": etcd_server.endpoint})
    services = replace(services, settings=settings)
    services.runs.put_model(layout.trial_key(REF, "trial.json"), SPEC)
    services.table.take_lease(lease_target(SPEC, settings), REF, "arn", time.time_ns())
    with ThreadPoolExecutor(1) as aside:
        pace = WatchPace(tick_s=0.2)
        watching = aside.submit(lambda: watch_changes(WatchChangesInput(ref=REF, lane=0), services, pace=pace))
        try:
            while "watcher#0" not in services.table.beats(REF.tag) and not watching.done():
                time.sleep(0.05)
            output = run_writer(RunWriterInput(item=writer_item(time.time_ns() + 4_000_000_000), attempt=0), services)
        finally:
            services.table.set_flag(REF.tag, layout.STOP_WATCHING, "done")
        assert watching.result(30).stopped
    assert output.ok == 200
    files = services.table.files(REF.tag)
    sent = concatenate([decode(file.key, services.runs.get_bytes(file.key)).rows for file in files])
    seen = np.concatenate([parse_item(item).entries for item in services.table.t4_items(REF.tag)])
    seen = seen[np.argsort(seen["sequence"])]
    assert seen["sequence"].tolist() == list(range(200))
    assert (seen["t4_ns"] > sent.t1_ns).all()
    assert [str(position) for position in seen["position"]] == list(sent.tokens)
