"""The reference driver against the real server process."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import struct
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import pytest

from stepbench.calibration.truth import read_truth
from stepbench.clock import SystemClock
from stepbench.contracts.identity import CANARY_PHASE, EventId, put_key
from stepbench.drivers.protocol import Outcome, Write
from stepbench.drivers.reference import ReferenceDriver
from stepbench.errors import TargetUnavailableError
from stepbench.local.processes import free_port, terminate
from stepbench.local.reference import TRUTH, start_reference
from stepbench.settings import Settings
from stepbench.testing.driver_contract import DriverContract
from stepbench.testing.driver_subject import Subject, contract_spec, contract_write
from stepbench.testing.store_life import running

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from stepbench.contracts.plan import TrialSpec
    from stepbench.drivers.protocol import ChangeBatch, Driver
    from stepbench.local.processes import LocalStore

pytestmark = pytest.mark.stores
LIMIT_S = 15
READ, KEYS = 5, 6
NOW = {"store": "reference", "delay": {"kind": "constant", "ms": 0}}


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of the server: its log and its truth."""
    return tmp_path_factory.mktemp("reference")


@pytest.fixture(scope="module")
def server(directory: Path) -> Iterator[LocalStore]:
    """A server process for this module."""
    store = start_reference(directory, parent=os.getpid())
    yield store
    terminate(store.pids)


def _driver(spec: TrialSpec, endpoint: str) -> ReferenceDriver:
    settings = Settings(results_table="unused", results_bucket="unused", reference_endpoint=endpoint)
    return ReferenceDriver(spec, settings, SystemClock())


class ReferenceSubject:
    """Reads by hand-made frames, not through our framing."""

    target = NOW

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
        _, answer = await asyncio.to_thread(ask, self.endpoint, READ, key.encode())
        return answer[1:] if answer[:1] == b"\1" else None

    async def leftovers(self, spec: TrialSpec) -> list[str]:
        """The trial and its keys."""
        _, answer = await asyncio.to_thread(ask, self.endpoint, KEYS, json.dumps({"tag": spec.tag}).encode())
        names: list[str] = json.loads(answer)
        return names


def ask(endpoint: str, kind: int, body: bytes) -> tuple[int, bytes]:
    """Kind and body of the answer to one request on a connection of its own."""
    host, _, port = endpoint.partition(":")
    with socket.create_connection((host, int(port)), timeout=5) as wire, wire.makefile("rb") as answers:
        wire.sendall(struct.pack("!IBQ", 9 + len(body), kind, 77) + body)
        length, answered, number = struct.unpack("!IBQ", answers.read(13))
        assert number == 77
        return answered, answers.read(length - 9)


class TestReferenceDriver(DriverContract):
    """The contract that all drivers share."""

    @pytest.fixture
    def subject(self, server: LocalStore) -> Subject:
        """The module's server."""
        return ReferenceSubject(server.endpoint)


async def _take(batches: AsyncIterator[ChangeBatch], count: int) -> list[tuple[bytes, int, int]]:
    """(value, position, t4) of the next `count` changes; bounded."""
    taken: list[tuple[bytes, int, int]] = []
    async with asyncio.timeout(LIMIT_S):
        while len(taken) < count:
            batch = await anext(batches)
            taken += [(change.value, change.position, batch.t4_ns) for change in batch.changes]
    return taken


async def test_every_write_arrives_no_earlier_than_its_delay_says(server: LocalStore, directory: Path) -> None:
    """A store that delivered early would make a truth that nobody can measure; t1 and t4 enclose what it did."""
    spec = contract_spec({**NOW, "delay": {"kind": "constant", "ms": 20}})
    async with running(_driver(spec, server.endpoint)) as driver, aclosing(_watch(spec, server, None)) as batches:
        assert (await anext(batches)).changes == []
        written = [await driver.write(contract_write(spec, sequence)) for sequence in range(5)]
        seen = await _take(batches, 5)
    truth = read_truth((directory / TRUTH / f"{spec.tag}.jsonl").read_text().splitlines())
    assert [value for value, _, _ in seen] == [contract_write(spec, sequence).value for sequence in range(5)]
    for sent, true, (_, position, t4_ns) in zip(written, truth, seen, strict=True):
        assert true.deliveries.keys() == {position}
        assert sent.t1_ns <= true.received_at_ns < true.received_at_ns + 20_000_000 == true.due_ns
        assert true.due_ns <= true.deliveries[position] <= t4_ns


async def test_a_watch_resumes_after_the_position_it_is_given(server: LocalStore) -> None:
    """Watchers take turns: the next one begins where the last one stopped, without gap and without the last event."""
    spec = contract_spec(NOW)
    async with running(_driver(spec, server.endpoint)) as driver:
        assert isinstance(driver, ReferenceDriver)
        for sequence in range(4):
            await driver.write(contract_write(spec, sequence))
        await _settled(driver)
        async with aclosing(_watch(spec, server, 2)) as batches:
            seen = await _take(batches, 2)
    assert [position for _, position, _ in seen] == [3, 4]
    assert [value for value, _, _ in seen] == [contract_write(spec, sequence).value for sequence in (2, 3)]


async def test_a_watch_from_now_sees_nothing_that_went_before_and_no_neighbour(server: LocalStore) -> None:
    """A trial's events are its own."""
    spec, neighbour = contract_spec(NOW), contract_spec(NOW)
    async with (
        running(_driver(spec, server.endpoint)) as driver,
        running(_driver(neighbour, server.endpoint)) as other,
    ):
        assert isinstance(driver, ReferenceDriver)
        await driver.write(contract_write(spec, 0))
        await _settled(driver)
        async with aclosing(_watch(spec, server, None)) as batches:
            assert (await anext(batches)).changes == []
            await other.write(contract_write(neighbour, 0))
            await driver.write(contract_write(spec, 1))
            seen = await _take(batches, 1)
    assert [(value, position) for value, position, _ in seen] == [(contract_write(spec, 1).value, 2)]


async def test_what_is_dropped_is_acknowledged_and_canaries_are_not(server: LocalStore, directory: Path) -> None:
    """Nearly all events are dropped here; a lost canary would only make the trial wait for its load."""
    spec = contract_spec({**NOW, "drop_share": 0.999999})
    canary = EventId(spec.tag, CANARY_PHASE, 0, 0, 0, 0)
    async with running(_driver(spec, server.endpoint)) as driver, aclosing(_watch(spec, server, None)) as batches:
        assert (await anext(batches)).changes == []
        lost = await driver.write(contract_write(spec, 0))
        await driver.write(Write(put_key(canary, 59), canary.text().encode()))
        seen = await _take(batches, 1)
    assert lost.outcome is Outcome.OK
    assert [value for value, _, _ in seen] == [canary.text().encode()]
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
    assert (await driver.write(contract_write(spec, 0))).error == "not-connected"
    await driver.open()
    written = await driver.write(contract_write(spec, 0))
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
    """And the connection lives on; a tag is the name of a file."""
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
        async with aclosing(_watch(spec, store, None)) as batches:
            assert (await anext(batches)).changes == []
            os.kill(store.pids[0], 19)  # SIGSTOP: writes are on their way, and nobody answers
            writes = asyncio.gather(*(driver.write(contract_write(spec, n)) for n in range(8)))
            await asyncio.sleep(0)
            terminate(store.pids, grace_s=0)
            async with asyncio.timeout(LIMIT_S):
                written = await writes
                with pytest.raises(TargetUnavailableError, match="ended the watch"):
                    await _take(batches, 1)
        assert {result.outcome for result in written} == {Outcome.UNKNOWN}
        assert (await driver.write(contract_write(spec, 9))).outcome is Outcome.FAILED
        with pytest.raises(TargetUnavailableError, match="cannot be reached"):
            await driver.tear_down()
    finally:
        terminate(store.pids)
        await driver.close()


async def _settled(driver: ReferenceDriver) -> None:
    """Until nothing is left to deliver."""
    async with asyncio.timeout(LIMIT_S):
        while (await driver.status())[0]:  # noqa: ASYNC110 -- a store has no event to wait for
            await asyncio.sleep(0.01)


def _watch(spec: TrialSpec, server: LocalStore, after: int | None) -> Any:  # noqa: ANN401 -- an async generator
    return _driver(spec, server.endpoint).watch(after)
