"""The etcd driver against a real etcd."""

from __future__ import annotations

import asyncio
import base64
import json
import time
import urllib.request
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from stepbench.clock import SystemClock
from stepbench.contracts.identity import CANARY_PHASE, EventId, delete_key, put_key
from stepbench.drivers.etcd import EtcdDriver
from stepbench.drivers.protocol import Outcome, Write
from stepbench.errors import TargetUnavailableError
from stepbench.local.certificates import make_certificates
from stepbench.local.etcd import start_etcd
from stepbench.local.processes import free_port, terminate
from stepbench.settings import Settings
from stepbench.testing.driver_contract import DriverContract
from stepbench.testing.driver_subject import Subject, contract_spec, contract_write
from stepbench.testing.filter_contract import FilterContract, FilterSubject, watching
from stepbench.testing.store_life import running, until_torn_down

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from stepbench.contracts.plan import TrialSpec
    from stepbench.drivers.protocol import ChangeBatch, Driver
    from stepbench.local.processes import LocalStore
    from stepbench.testing.filter_contract import Arrived

pytestmark = pytest.mark.stores
LIMIT_S = 15


def _driver(spec: TrialSpec, endpoint: str) -> EtcdDriver:
    settings = Settings(results_table="unused", results_bucket="unused", etcd_endpoint=endpoint)
    return EtcdDriver(spec, settings, SystemClock())


class EtcdSubject:
    """Reads through etcd's JSON gateway, not through gRPC."""

    target = {"store": "etcd"}  # noqa: RUF012 -- read only

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint

    def driver(self, spec: TrialSpec) -> Driver:
        """For the running server."""
        return _driver(spec, self.endpoint)

    def unreachable(self, spec: TrialSpec) -> Driver:
        """For a port without a listener."""
        return _driver(spec, f"127.0.0.1:{free_port()}")

    async def read_back(self, _spec: TrialSpec, key: str) -> bytes | None:
        """The value under a key."""
        entries = await self.gateway("kv/range", {"key": _encode(key)})
        return base64.b64decode(entries[0]["value"]) if entries else None

    async def leftovers(self, spec: TrialSpec) -> list[str]:
        """All keys that begin with the trial's tag, with or without the slash."""
        entries = await self.gateway("kv/range", {"key": _encode(spec.tag), "range_end": _encode(f"{spec.tag}~")})
        return [base64.b64decode(entry["key"]).decode() for entry in entries]

    def receiving(self, spec: TrialSpec) -> AbstractAsyncContextManager[Arrived]:
        """By a watch."""
        return watching(_driver(spec, self.endpoint))

    async def gateway(self, path: str, question: dict[str, Any]) -> list[dict[str, str]]:
        """Ask etcd's JSON gateway."""
        request = urllib.request.Request(f"http://{self.endpoint}/v3/{path}", json.dumps(question).encode())

        def ask() -> list[dict[str, str]]:
            with urllib.request.urlopen(request, timeout=5) as answer:  # noqa: S310 -- loopback
                entries: list[dict[str, str]] = json.load(answer).get("kvs", [])
                return entries

        return await asyncio.to_thread(ask)


def _encode(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


@pytest.fixture
def subject(etcd_server: LocalStore) -> EtcdSubject:
    """The session's etcd."""
    return EtcdSubject(etcd_server.endpoint)


class TestEtcdDriver(DriverContract):
    """The contract that all drivers share."""

    @pytest.fixture
    def subject(self, etcd_server: LocalStore) -> Subject:
        """The session's etcd."""
        return EtcdSubject(etcd_server.endpoint)


class TestEtcdFilter(FilterContract):
    """Its filter is the watch's range of keys, so an update's key would have to tell."""

    operations = ("put", "delete")

    @pytest.fixture
    def subject(self, etcd_server: LocalStore) -> FilterSubject:
        """The session's etcd."""
        return EtcdSubject(etcd_server.endpoint)


@asynccontextmanager
async def _watching(driver: EtcdDriver, from_position: int | None) -> AsyncIterator[AsyncIterator[ChangeBatch]]:
    """An established watch; every step is bounded."""
    async with asyncio.timeout(LIMIT_S), aclosing(driver.watch(from_position)) as batches:
        first = await anext(batches)
        assert list(first.changes) == []
        yield batches


async def _take(batches: AsyncIterator[ChangeBatch], count: int) -> list[tuple[bytes, int, int]]:
    """(value, position, t4) of the next `count` changes."""
    taken: list[tuple[bytes, int, int]] = []
    while len(taken) < count:
        batch = await anext(batches)
        taken += [(change.value, change.position, batch.t4_ns) for change in batch.changes]
    return taken


async def test_the_watch_sees_puts_and_updates_in_order(subject: EtcdSubject) -> None:
    """An update carries the identity in its value; a watch that missed one would report it as lost."""
    spec = contract_spec(subject.target)
    first, second, again = contract_write(spec, 0), contract_write(spec, 1), contract_write(spec, 0, attempt=1)
    async with running(_driver(spec, subject.endpoint)) as driver:
        watcher = _driver(spec, subject.endpoint)
        async with _watching(watcher, None) as batches:
            written = [await driver.write(write) for write in (first, second, again)]
            seen = await _take(batches, 3)
    assert [value for value, _, _ in seen] == [first.value, second.value, again.value]
    assert [str(position) for _, position, _ in seen] == [result.token for result in written]
    assert all(result.t1_ns < t4_ns for result, (_, _, t4_ns) in zip(written, seen, strict=True))


async def test_a_watch_resumes_after_the_position_it_is_given(subject: EtcdSubject) -> None:
    """Watchers take turns: the next one begins where the last one stopped, without gap and without the last event."""
    spec = contract_spec(subject.target)
    async with running(_driver(spec, subject.endpoint)) as driver:
        written = [await driver.write(contract_write(spec, sequence)) for sequence in range(4)]
        async with _watching(_driver(spec, subject.endpoint), int(written[1].token)) as batches:
            seen = await _take(batches, 2)
    assert [str(position) for _, position, _ in seen] == [written[2].token, written[3].token]


async def test_the_watch_sees_its_own_trial_only(subject: EtcdSubject) -> None:
    """Trials share a cluster; a neighbour's event would be counted as malformed, or as ours."""
    spec, neighbour = contract_spec(subject.target), contract_spec(subject.target)
    canary = EventId(spec.tag, CANARY_PHASE, 0, 0, 0, 0)
    write = Write(put_key(canary, 59), canary.text().encode())
    async with (
        running(_driver(spec, subject.endpoint)) as driver,
        running(_driver(neighbour, subject.endpoint)) as other,
        _watching(_driver(spec, subject.endpoint), None) as batches,
    ):
        await other.write(contract_write(neighbour, 0))
        await driver.write(write)
        ((value, _, _),) = await _take(batches, 1)
    assert value == write.value


async def test_the_watch_of_deletes_sees_nothing_else(subject: EtcdSubject) -> None:
    """By their keys, which is all that etcd tells of them; what canaries write first is no change."""
    spec = contract_spec(subject.target, "delete")
    keys = [delete_key(EventId(spec.tag, 0, 0, 0, 0, sequence), 59) for sequence in (0, 1)]
    canary = Write(delete_key(EventId(spec.tag, CANARY_PHASE, 0, 0, 0, 1), 59), b"value")
    async with (
        running(_driver(spec, subject.endpoint)) as driver,
        _watching(_driver(spec, subject.endpoint), None) as batches,
    ):
        await driver.write(canary)
        deletions = [Write(key, b"", delete=True) for key in (*keys, canary.key)]
        written = [await driver.write(deletion) for deletion in deletions]
        seen = await _take(batches, 3)
    assert [value.decode() for value, _, _ in seen] == [*keys, canary.key]
    assert [str(position) for _, position, _ in seen] == [result.token for result in written]


async def test_deletions_are_no_changes(subject: EtcdSubject) -> None:
    """Tear-down may begin while a watcher still holds; an empty value would count as malformed."""
    spec = contract_spec(subject.target)
    async with (
        running(_driver(spec, subject.endpoint)) as driver,
        _watching(_driver(spec, subject.endpoint), None) as batches,
    ):
        await driver.write(contract_write(spec, 0))
        await driver.tear_down()
        await driver.write(contract_write(spec, 1))
        seen = await _take(batches, 2)
    assert [value for value, _, _ in seen] == [contract_write(spec, 0).value, contract_write(spec, 1).value]


async def test_arrivals_are_stamped_while_the_consumer_is_busy(subject: EtcdSubject) -> None:
    """The watcher stores batches between two reads; its own work must not count as the store's latency."""
    spec = contract_spec(subject.target)
    busy_s = 0.3
    async with (
        running(_driver(spec, subject.endpoint)) as driver,
        _watching(_driver(spec, subject.endpoint), None) as batches,
    ):
        written = await driver.write(contract_write(spec, 0))
        await asyncio.sleep(busy_s)
        ((_, _, t4_ns),) = await _take(batches, 1)
    assert t4_ns - written.t2_ns < busy_s / 2 * 1e9


async def test_a_compacted_position_ends_the_watch(subject: EtcdSubject) -> None:
    """Events between the position and the compaction are gone: the trial is invalid, and has to say so."""
    spec = contract_spec(subject.target)
    async with running(_driver(spec, subject.endpoint)) as driver:
        revisions = [int((await driver.write(contract_write(spec, sequence))).token) for sequence in range(3)]
        watcher = _driver(spec, subject.endpoint)
        await subject.gateway("kv/compaction", {"revision": str(revisions[2]), "physical": True})
        async with asyncio.timeout(LIMIT_S):
            with pytest.raises(TargetUnavailableError, match=f"compacted up to revision {revisions[2]}"):
                async for _ in watcher.watch(revisions[0]):
                    pass


async def test_a_refused_write_is_failed_with_etcds_code(subject: EtcdSubject) -> None:
    """Etcd refuses requests above 1.5 MiB before it proposes them: the write has not happened, for certain."""
    spec = contract_spec(subject.target)
    async with running(_driver(spec, subject.endpoint)) as driver:
        written = await driver.write(Write(f"{spec.tag}/big", b"x" * 2_000_000))
    assert (written.outcome, written.error) == (Outcome.FAILED, "INVALID_ARGUMENT")


async def test_a_killed_server_acknowledges_nothing_and_ends_the_watch(tmp_path: Path) -> None:
    """The store may die in the middle of a trial; neither writers nor watchers may hang or raise anything else."""
    server = start_etcd(tmp_path)
    spec = contract_spec(EtcdSubject.target)
    driver = _driver(spec, server.endpoint)
    try:
        await driver.open()
        async with _watching(_driver(spec, server.endpoint), None) as batches:
            await driver.write(contract_write(spec, 0))
            await _take(batches, 1)
            terminate(server.pids, grace_s=0)
            started = time.monotonic()
            written = await asyncio.gather(*(driver.write(contract_write(spec, n)) for n in range(1, 9)))
            with pytest.raises(TargetUnavailableError):
                await _take(batches, 1)
            elapsed_s = time.monotonic() - started
        # FAILED are those that the kernel no longer took, or for which there was nobody to connect to.
        assert {result.outcome for result in written} <= {Outcome.UNKNOWN, Outcome.FAILED}
        assert {result.error for result in written} <= {"UNAVAILABLE", "connect: ConnectionRefusedError"}
        assert elapsed_s < LIMIT_S
        with pytest.raises(TargetUnavailableError):
            await driver.tear_down()
    finally:
        terminate(server.pids)
        await driver.close()


async def test_writes_go_to_every_endpoint(subject: EtcdSubject, tmp_path: Path) -> None:
    """With one endpoint idle, half of the cluster's front would be untested; here two servers show who got what."""
    second = start_etcd(tmp_path)
    try:
        spec = contract_spec(subject.target)
        driver = _driver(spec, f"{subject.endpoint}, http://{second.endpoint}")
        await driver.open()
        for sequence in range(4):
            await driver.write(contract_write(spec, sequence))
        await driver.close()
        counts = [len(await EtcdSubject(each).leftovers(spec)) for each in (subject.endpoint, second.endpoint)]
        await until_torn_down(driver)
    finally:
        terminate(second.pids)
    assert counts == [2, 2]


async def test_writes_and_the_watch_over_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A managed etcd has nothing else; the authority is one that the system trusts."""
    certificates = make_certificates(tmp_path / "tls")
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates.authority))
    server = start_etcd(tmp_path / "etcd", certificates)
    try:
        spec = contract_spec(EtcdSubject.target)
        writer = _driver(spec, server.endpoint)
        async with running(writer), _watching(_driver(spec, server.endpoint), None) as batches:
            written = [await writer.write(contract_write(spec, sequence)) for sequence in range(3)]
            changes = await _take(batches, 3)
    finally:
        terminate(server.pids)
    assert [str(position) for _, position, _ in changes] == [each.token for each in written]
