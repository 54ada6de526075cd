"""A trial on a real etcd whose watch is held, for the tests that write to it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from stepbench.contracts.tasks import WatchChangesInput
from stepbench.drivers.registry import lease_target
from stepbench.records import layout
from stepbench.stages.watch_changes import WatchPace, watch_changes
from stepbench.testing.records import REF

if TYPE_CHECKING:
    from stepbench.contracts.plan import TrialSpec
    from stepbench.local.processes import LocalStore
    from stepbench.stages.services import Services

START_AHEAD_NS = 4_000_000_000
"""Time for a writer to get ready."""


@contextmanager
def watched_etcd(services: Services, etcd_server: LocalStore, spec: TrialSpec) -> Iterator[Services]:
    """Services that reach the server; inside, lane 0 watches the trial, and at the end it has stopped in order."""
    settings = services.settings.model_copy(update={"etcd_endpoint": etcd_server.endpoint})
    services = replace(services, settings=settings)
    services.runs.put_model(layout.trial_key(REF, "trial.json"), spec)
    services.table.take_lease(lease_target(spec, settings), REF, "arn", time.time_ns())
    with ThreadPoolExecutor(1) as aside:
        pace = WatchPace(tick_s=0.2)
        watching = aside.submit(lambda: watch_changes(WatchChangesInput(ref=REF, lane=0), services, pace=pace))
        try:
            while "watcher#0" not in services.table.beats(REF.tag) and not watching.done():
                time.sleep(0.05)
            yield services
        finally:
            services.table.set_flag(REF.tag, layout.STOP_WATCHING, "done")
        assert watching.result(30).stopped
