"""Whether a store serves the operations of a trial: what `AwaitTarget` asks before any load is offered."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from stepbench.contracts.workload import Kind
from stepbench.drivers.protocol import Outcome
from stepbench.load.operations import Contents
from stepbench.load.workload import PROBES

if TYPE_CHECKING:
    from stepbench.contracts.plan import TrialSpec
    from stepbench.contracts.workload import Workload
    from stepbench.stages.services import Services
    from stepbench.stages.target_driver import OpenDriver

_NS_PER_MS = 1_000_000


def probe(spec: TrialSpec, services: Services, opened: OpenDriver) -> bool:
    """
    Whether the store says that it is ready, and one operation works.

    That is a read of the last record that was preloaded, which shows that all were. Where there is none, a record is
    inserted, apart from the workload's: its number is the time, so that a second probe has another. It stays.
    """
    if not opened.run(opened.driver.ready()):
        return False
    workload = cast("Workload", spec.plan.workload)
    contents = Contents(workload, spec.tag)
    if workload.records:
        operation = contents.operation(Kind.READ, workload.records - 1, 0)
    else:
        operation = contents.operation(Kind.INSERT, PROBES | services.clock.now_ns() // _NS_PER_MS, 0)
    return opened.run(opened.operable.operate(operation)).outcome is Outcome.OK
