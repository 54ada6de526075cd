"""The example store as the contracts' tests see it: with its own driver, or with one that breaks something."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.samples.ports import UNSERVED_PORT
from tests.support.contracts.filter import watching
from tests.support.contracts.operations_subject import SILENT_LIMIT_S, fields_of
from tests.support.example_store.driver import ExampleDriver
from tests.support.example_store.target import ExampleTarget
from tests.support.fault_proxy import plain

from stepbench.clock import AnchoredClock
from stepbench.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

    from tests.support.contracts.filter import Arrived
    from tests.support.example_store.server import ExampleServer
    from tests.support.fault_proxy import FaultProxy, Framing

    from stepbench.contracts.plan import TrialSpec

SETTINGS = Settings(results_table="unused", results_bucket="unused")


class ExampleSubject:
    """`WatchSubject`, `FilterSubject` and `OperationsSubject`, which looks into the server's memory."""

    framing: Callable[[], Framing] = staticmethod(plain)

    def __init__(self, server: ExampleServer, driver: type[ExampleDriver] = ExampleDriver) -> None:
        self._server = server
        self._driver = driver
        self.upstream = server.endpoint
        self.target = ExampleTarget(endpoint=server.endpoint)

    def driver(self, spec: TrialSpec) -> ExampleDriver:
        """Return a driver for the running server."""
        return self._reach(spec, self.upstream)

    operable = driver

    def unreachable(self, spec: TrialSpec) -> ExampleDriver:
        """Return a driver for a port without a listener."""
        return self._reach(spec, f"127.0.0.1:{UNSERVED_PORT}")

    def through(self, spec: TrialSpec, proxy: FaultProxy) -> ExampleDriver:
        """Return a driver that reaches the server through a proxy."""
        return self._reach(spec, proxy.endpoint, answer_s=SILENT_LIMIT_S)

    async def read_back(self, spec: TrialSpec, key: str) -> Any:  # noqa: ANN401 -- bytes, and of operations `Stored`
        """Return the value under a key, a product's as fields."""
        value = self._server.values.get(key.encode())
        workload = spec.plan.workload
        return fields_of(value) if value is not None and workload and workload.record.shape == "product" else value

    async def leftovers(self, spec: TrialSpec) -> list[str]:
        """Return the trial's keys."""
        return [key for key in map(bytes.decode, self._server.values) if key.startswith(spec.tag)]

    def receiving(self, spec: TrialSpec) -> AbstractAsyncContextManager[Arrived]:
        """Return a watch."""
        return watching(self.driver(spec))

    def _reach(self, spec: TrialSpec, endpoint: str, answer_s: float = 10.0) -> ExampleDriver:
        plan = spec.plan.model_copy(update={"target": ExampleTarget(endpoint=endpoint)})
        return self._driver(spec.model_copy(update={"plan": plan}), SETTINGS, AnchoredClock(), answer_s=answer_s)
