"""The reference driver against the real server process."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import struct
from typing import TYPE_CHECKING

import pytest
from tests.integration.drivers.subjects import ServedSubject, SubjectFixture, established_watch, take_changes
from tests.support.contracts.life import running
from tests.support.contracts.trigger import TriggerContract
from tests.support.contracts.trigger_subject import contract_spec, contract_write
from tests.support.contracts.watch import WatchContract

from stepbench.clock import SystemClock
from stepbench.contracts.identity import CANARY_PHASE, EventId, put_key
from stepbench.contracts.workload import Kind
from stepbench.drivers.reference.trigger import ReferenceDriver
from stepbench.errors import TargetUnavailableError
from stepbench.model.pending import perform
from stepbench.model.request import Outcome, Request
from stepbench.settings import Settings
from stepbench_tools.calibration.truth import read_truth
from stepbench_tools.local.processes import terminate
from stepbench_tools.local.stores.references import TRUTH, start_reference

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from stepbench.contracts.plan import TrialSpec
    from stepbench.model.request import ChangeBatch
    from stepbench_tools.local.stores import LocalStore

pytestmark = pytest.mark.stores
LIMIT_S = 15
READ, KEYS = 5, 6
NOW = {"store": "reference", "delay": {"kind": "constant", "ms": 0}}


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory of the server, with its log and its truth."""
    return tmp_path_factory.mktemp("reference")


@pytest.fixture(scope="module")
def server(directory: Path) -> Iterator[LocalStore]:
    """Start a server process for this module."""
    store = start_reference(directory, parent=os.getpid())
    yield store
    terminate(store.pids)


def _driver(spec: TrialSpec, endpoint: str) -> ReferenceDriver:
    settings = Settings(results_table="unused", results_bucket="unused", reference_endpoint=endpoint)
    return ReferenceDriver(spec, settings, SystemClock())


class ReferenceSubject(ServedSubject):
    """Reads by hand-made frames, not through our framing."""

    target = NOW

    def build(self, spec: TrialSpec, endpoint: str, limit_s: float | None = None) -> ReferenceDriver:
        """See `ServedSubject`; the driver's limit is its own."""
        del limit_s
        return _driver(spec, endpoint)

    async def read_back(self, _spec: TrialSpec, key: str) -> bytes | None:
        """Return the value under a key."""
        _, answer = await asyncio.to_thread(ask, self.upstream, READ, key.encode())
        return answer[1:] if answer[:1] == b"\1" else None

    async def leftovers(self, spec: TrialSpec) -> list[str]:
        """Return the trial and its keys."""
        _, answer = await asyncio.to_thread(ask, self.upstream, KEYS, json.dumps({"tag": spec.tag}).encode())
        names: list[str] = json.loads(answer)
        return names


def ask(endpoint: str, kind: int, body: bytes) -> tuple[int, bytes]:
    """Return kind and body of the answer to one request on a connection of its own."""
    host, _, port = endpoint.partition(":")
    with socket.create_connection((host, int(port)), timeout=5) as wire, wire.makefile("rb") as answers:
        wire.sendall(struct.pack("!IBQ", 9 + len(body), kind, 77) + body)
        length, answered, number = struct.unpack("!IBQ", answers.read(13))
        assert number == 77
        return answered, answers.read(length - 9)


@pytest.fixture
def subject(server: LocalStore) -> ReferenceSubject:
    """Return the module's server."""
    return ReferenceSubject(server.endpoint)


class TestReferenceDriver(SubjectFixture, TriggerContract):
    """The contract that all drivers share."""


class TestReferenceWatch(SubjectFixture, WatchContract):
    """The contract of stores whose changes are pulled."""


async def test_every_write_arrives_no_earlier_than_its_delay_says(server: LocalStore, directory: Path) -> None:
    """A store that delivered early would make a truth that nobody can measure; t1 and t4 enclose what it did."""
    spec = contract_spec({**NOW, "delay": {"kind": "constant", "ms": 20}})
    async with running(_driver(spec, server.endpoint)) as driver, _watch(spec, server) as batches:
        written = [await perform(driver, contract_write(spec, sequence)) for sequence in range(5)]
        seen = await take_changes(batches, 5)
    truth = read_truth((directory / TRUTH / f"{spec.tag}.jsonl").read_text().splitlines())
    assert [each.value for each in seen] == [contract_write(spec, sequence).value for sequence in range(5)]
    for sent, true, (_, position, t4_ns) in zip(written, truth, seen, strict=True):
        assert true.deliveries.keys() == {position}
        assert sent.t1_ns <= true.received_at_ns < true.received_at_ns + 20_000_000 == true.due_ns
        assert true.due_ns <= true.deliveries[position] <= t4_ns


async def test_a_watch_from_now_sees_nothing_that_went_before_and_no_neighbour(server: LocalStore) -> None:
    """A trial's events are its own."""
    spec, neighbour = contract_spec(NOW), contract_spec(NOW)
    async with running(_driver(spec, server.endpoint)) as driver, running(_driver(neighbour, server.endpoint)) as other:
        assert isinstance(driver, ReferenceDriver)
        await perform(driver, contract_write(spec, 0))
        await _settled(driver)
        async with _watch(spec, server) as batches:
            await perform(other, contract_write(neighbour, 0))
            await perform(driver, contract_write(spec, 1))
            seen = await take_changes(batches, 1)
    assert [(each.value, each.position) for each in seen] == [(contract_write(spec, 1).value, 2)]


async def test_what_is_dropped_is_acknowledged_and_canaries_are_not(server: LocalStore, directory: Path) -> None:
    """Nearly all events are dropped here; a lost canary would only make the trial wait for its load."""
    spec = contract_spec({**NOW, "drop_share": 0.999999})
    canary = EventId(spec.tag, CANARY_PHASE, 0, 0, 0, 0)
    async with running(_driver(spec, server.endpoint)) as driver, _watch(spec, server) as batches:
        lost = await perform(driver, contract_write(spec, 0))
        await perform(driver, Request(Kind.INSERT, put_key(canary, 59), canary.text().encode()))
        seen = await take_changes(batches, 1)
    assert lost.outcome is Outcome.OK
    assert [each.value for each in seen] == [canary.text().encode()]
    (true,) = read_truth((directory / TRUTH / f"{spec.tag}.jsonl").read_text().splitlines())
    assert (true.dropped, true.deliveries) == (True, {})


async def test_a_trial_is_not_treated_in_two_ways(server: LocalStore) -> None:
    """A retried PrepareTarget asks for the same; something else is another trial under this one's name."""
    spec = contract_spec(NOW)
    plan = spec.plan.model_copy(update={"seed": spec.plan.seed + 1})
    async with running(_driver(spec, server.endpoint)):
        with pytest.raises(TargetUnavailableError, match="did not do CONFIGURE: TrialExists"):
            await _driver(spec.model_copy(update={"plan": plan}), server.endpoint).prepare()


async def test_a_write_to_no_trial_is_failed(server: LocalStore) -> None:
    """It has not happened, for certain."""
    spec = contract_spec(NOW)
    driver = _driver(spec, server.endpoint)
    assert (await perform(driver, contract_write(spec, 0))).error == "connection-closed"
    await driver.open()
    written = await perform(driver, contract_write(spec, 0))
    await driver.close()
    assert (written.outcome, written.error) == (Outcome.FAILED, "NoSuchTrial")


@pytest.mark.parametrize(
    ("kind", "body", "code"),
    [
        (99, b"", b"UnknownKind"),
        (1, b"{}", b"MalformedRequest"),
        (1, b"not JSON", b"MalformedRequest"),
        (1, b'{"tag": "t", "target": {"store": "s3"}, "seed": 1}', b"MalformedTarget"),
        (1, b'{"tag": "../up", "target": {"store": "reference"}, "seed": 1}', b"MalformedTag"),
        (2, b"\xff\xffkey", b"MalformedRequest"),
        (3, b'{"tag": "nobody", "after": null}', b"NoSuchTrial"),
    ],
)
def test_requests_that_cannot_be_done_are_refused_with_a_code(
    server: LocalStore, kind: int, body: bytes, code: bytes
) -> None:
    """The connection lives on; a tag is the name of a file."""
    assert ask(server.endpoint, kind, body) == (17, code)


def test_a_stranger_is_cut_off(server: LocalStore) -> None:
    """Four gigabytes are not waited for; the server goes on serving others."""
    host, _, port = server.endpoint.partition(":")
    with socket.create_connection((host, int(port)), timeout=5) as wire:
        wire.sendall(b"\xff\xff\xff\xff\x02" + bytes(8))
        with contextlib.suppress(ConnectionResetError):  # as good an end
            assert wire.recv(1) == b""
    assert ask(server.endpoint, 8, b"")[1].startswith(b"reference store ")


async def test_a_killed_server_is_unknown_to_writers_and_ends_the_watch(tmp_path: Path) -> None:
    """The store may die in the middle of a trial; neither writers nor watchers may hang or raise anything else."""
    store = start_reference(tmp_path, parent=os.getpid())
    spec = contract_spec(NOW)
    driver = _driver(spec, store.endpoint)
    try:
        await driver.prepare()
        await driver.open()
        async with _watch(spec, store) as batches:
            os.kill(store.pids[0], 19)  # SIGSTOP: writes are on their way, and nobody answers
            writes = asyncio.gather(*(perform(driver, contract_write(spec, n)) for n in range(8)))
            await asyncio.sleep(0)
            terminate(store.pids, grace_s=0)
            async with asyncio.timeout(LIMIT_S):
                written = await writes
                with pytest.raises(TargetUnavailableError, match="ended the watch"):
                    await take_changes(batches, 1)
        assert {result.outcome for result in written} == {Outcome.UNKNOWN}
        assert (await perform(driver, contract_write(spec, 9))).outcome is Outcome.FAILED
        with pytest.raises(TargetUnavailableError, match="connect: refused"):
            await driver.tear_down()
    finally:
        terminate(store.pids)
        await driver.close()


async def _settled(driver: ReferenceDriver) -> None:
    """Return once nothing is left to deliver."""
    async with asyncio.timeout(LIMIT_S):
        while (await driver.status())[0]:  # noqa: ASYNC110 -- a store has no event to wait for
            await asyncio.sleep(0.01)


def _watch(spec: TrialSpec, server: LocalStore) -> AbstractAsyncContextManager[AsyncIterator[ChangeBatch]]:
    return established_watch(_driver(spec, server.endpoint))
