"""One etcd as the contracts' tests and the stores' common ones see it: through its JSON gateway, not through gRPC."""

from __future__ import annotations

import asyncio
import base64
import json
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.drivers.subjects import ServedSubject
from tests.support.contracts.filter import watching
from tests.support.contracts.operations_subject import SILENT_LIMIT_S, fields_of
from tests.support.fault_proxy import http2

from stepbench.clock import AnchoredClock
from stepbench.drivers.etcd.cluster import EtcdLimits
from stepbench.drivers.etcd.operations import EtcdOperations
from stepbench.drivers.etcd.trigger import EtcdDriver
from stepbench.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

    from tests.support.contracts.filter import Arrived
    from tests.support.fault_proxy import Framing

    from stepbench.contracts.plan import TrialSpec
    from stepbench_tools.local.stores import LocalStore

LIMITS = EtcdLimits(write_s=SILENT_LIMIT_S, control_s=SILENT_LIMIT_S)


def etcd_settings(endpoint: str) -> Settings:
    """Return settings of a stack that knows this etcd."""
    return Settings(results_table="unused", results_bucket="unused", etcd_endpoint=endpoint)


def etcd_driver(spec: TrialSpec, endpoint: str, limits: EtcdLimits | None = None) -> EtcdDriver:
    """Return a driver of triggers for the server there."""
    return EtcdDriver(spec, etcd_settings(endpoint), AnchoredClock(), limits=limits or EtcdLimits())


def etcd_operations(spec: TrialSpec, endpoint: str, limits: EtcdLimits | None = None) -> EtcdOperations:
    """Return a driver of operations for the server there."""
    return EtcdOperations(spec, etcd_settings(endpoint), AnchoredClock(), limits=limits or EtcdLimits())


class EtcdSubject(ServedSubject):
    """See `TriggerSubject`, `WatchSubject`, `FilterSubject` and `OperationsSubject`."""

    target: dict[str, Any] = {"store": "etcd"}  # noqa: RUF012 -- read only
    framing: Callable[[], Framing] = staticmethod(http2)

    def build(self, spec: TrialSpec, endpoint: str, limit_s: float | None = None) -> EtcdDriver | EtcdOperations:
        """See `ServedSubject`."""
        make = etcd_operations if spec.plan.experiment == "operations" else etcd_driver
        return make(spec, endpoint, LIMITS if limit_s else None)

    async def read_back(self, spec: TrialSpec, key: str) -> Any:  # noqa: ANN401 -- bytes, and of operations `Stored`
        """Return the value under a key."""
        del spec
        entries = await self.gateway("kv/range", {"key": _encode(key)})
        value = base64.b64decode(entries[0]["value"]) if entries else None
        return fields_of(value) if value is not None and value.startswith(b"{") else value

    async def leftovers(self, spec: TrialSpec) -> list[str]:
        """Return all keys that begin with the trial's tag, with or without the slash."""
        entries = await self.gateway("kv/range", {"key": _encode(spec.tag), "range_end": _encode(f"{spec.tag}~")})
        return [base64.b64decode(entry["key"]).decode() for entry in entries]

    def receiving(self, spec: TrialSpec) -> AbstractAsyncContextManager[Arrived]:
        """Watch."""
        return watching(etcd_driver(spec, self.upstream))

    async def gateway(self, path: str, question: dict[str, Any]) -> list[dict[str, str]]:
        """Return the keys and values in an answer of `ask`."""
        entries: list[dict[str, str]] = (await self.ask(path, question)).get("kvs", [])
        return entries

    async def ask(self, path: str, question: dict[str, Any]) -> dict[str, Any]:
        """Ask etcd's JSON gateway."""
        request = urllib.request.Request(f"http://{self.upstream}/v3/{path}", json.dumps(question).encode())

        def fetch() -> dict[str, Any]:
            with urllib.request.urlopen(request, timeout=5) as answer:  # noqa: S310 -- loopback
                found: dict[str, Any] = json.load(answer)
                return found

        return await asyncio.to_thread(fetch)


def _encode(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


@pytest.fixture
def one_member(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let tear-downs not wait for compactions of other members: the only one has ended its own when it answers."""
    monkeypatch.setattr("stepbench.drivers.etcd.store.SETTLE_S", 0.01)


@pytest.fixture
def subject(etcd_server: LocalStore) -> EtcdSubject:
    """Return the session's etcd."""
    return EtcdSubject(etcd_server.endpoint)
