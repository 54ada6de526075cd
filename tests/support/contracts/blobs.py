"""
What every store that functions pass data through has to do, as one pytest class that runs against the real server.

As with `TriggerContract`, a test module subclasses `BlobsContract` and overrides the fixture `subject`, which looks
into the store behind the driver's back.
"""

from __future__ import annotations

import asyncio
import random
import time
from typing import TYPE_CHECKING

import pytest
from tests.support.contracts.blobs_subject import BlobsSubject, blobs_spec, holding, until_blobs_are_gone
from tests.support.contracts.life import CLOCK_TOLERANCE_NS, GIVE_UP_LIMIT_S, LOOK_LIMIT_S
from tests.support.fault_proxy import Cut, Drop, Rule, fault_proxy

from stepbench.errors import TargetUnavailableError
from stepbench.model.request import Outcome

if TYPE_CHECKING:
    from tests.support.fault_proxy import Fault

    from stepbench.drivers.blobs import BlobStore, BlobTransfer

MIB = 2**20
SIZES = (1, 65_537, 2 * MIB - 1, 2 * MIB, 2 * MIB + 1, 20 * MIB)
"""A byte; more than a read; about a chunk of Cassandra's; ten of them."""


def _blob(size: int) -> bytes:
    return random.Random(size).randbytes(size)  # noqa: S311 -- no secret


class BlobsContract:
    """The tests of a store of blobs."""

    @pytest.fixture
    def subject(self) -> BlobsSubject:
        """Return the store; each store's tests override it."""
        raise NotImplementedError

    async def test_blobs_come_back_as_they_were(self, subject: BlobsSubject) -> None:
        """This holds for every size, and the parts of a transfer's time add up."""
        spec = blobs_spec(subject.target)
        async with holding(subject.store(spec)) as store:
            for size in SIZES:
                blob, key, before_ns = _blob(size), f"{spec.tag}/sized-{size}", time.time_ns()
                put = await store.put(key, memoryview(blob))
                got, get = await store.get(key)
                assert got == blob, (size, get)
                for transfer in (put, get):
                    _check_times(transfer, before_ns, size)
            assert len(await store.keys()) == len(SIZES)

    async def test_several_transfers_are_under_way_at_once(self, subject: BlobsSubject) -> None:
        """A task reads all its inputs side by side; each must get its own."""
        spec = blobs_spec(subject.target)
        blobs = {f"{spec.tag}/{number}": _blob(3 * MIB + number) for number in range(5)}
        async with holding(subject.store(spec)) as store:
            puts = await asyncio.gather(*(store.put(key, blob) for key, blob in blobs.items()))
            gets = await asyncio.gather(*(store.get(key) for key in blobs))
        assert {each.outcome for each in puts} == {Outcome.OK}
        assert [bytes(blob) for blob, _ in gets] == [*blobs.values()]

    async def test_a_shorter_blob_takes_the_place_of_a_longer(self, subject: BlobsSubject) -> None:
        """A task that is tried again writes its outputs once more; nothing of the first attempt may show through."""
        spec = blobs_spec(subject.target)
        key, short = f"{spec.tag}/again", _blob(2 * MIB + 7)
        async with holding(subject.store(spec)) as store:
            await store.put(key, _blob(9 * MIB))
            await store.put(key, short)
            assert (await store.get(key))[0] == short
            assert await store.delete([key]) == 1
            assert await store.keys() == ()

    async def test_what_is_not_there_is_not_found(self, subject: BlobsSubject) -> None:
        """It is counted as missing, and not as a store that fails; the next get uses the same connection."""
        spec = blobs_spec(subject.target)
        async with holding(subject.store(spec)) as store:
            found = [await store.get(f"{spec.tag}/never") for _ in range(2)]
        assert [(blob, each.outcome, each.error) for blob, each in found] == [(b"", Outcome.FAILED, "not_found")] * 2
        assert all(each.began_ns and each.requests == 1 and not each.blob_bytes for _, each in found)

    async def test_no_blob_is_no_blob(self, subject: BlobsSubject) -> None:
        """An empty one would be `not_found` in some stores and not in others."""
        store = subject.store(blobs_spec(subject.target))
        with pytest.raises(ValueError, match="1 byte"):
            await store.put("empty", b"")

    async def test_deletion_counts_and_leaves_the_others(self, subject: BlobsSubject) -> None:
        """The count is what proves that each object was there, and the rest is another execution's."""
        spec, other = blobs_spec(subject.target), blobs_spec(subject.target)
        keys = [f"{spec.tag}/{number}" for number in range(4)]
        async with holding(subject.store(other)) as theirs, holding(subject.store(spec)) as store:
            for key in keys:
                await store.put(key, b"1")
            await theirs.put(f"{other.tag}/0", b"2")
            assert await store.delete([*keys[:2], f"{spec.tag}/never"]) == len(keys[:2])
            assert await store.delete([]) == 0
            assert list(await store.keys()) == keys[2:]
            await until_blobs_are_gone(store)
            assert await store.keys() == ()
            assert await theirs.keys() == (f"{other.tag}/0",)

    async def test_tear_down_leaves_nothing(self, subject: BlobsSubject) -> None:
        """It is called without knowing how far anybody came, by a new process, and more than once."""
        spec = blobs_spec(subject.target)
        await until_blobs_are_gone(subject.store(spec))
        async with holding(subject.store(spec)) as store:
            await store.put(f"{spec.tag}/large", _blob(5 * MIB))
            await store.put(f"{spec.tag}/large", _blob(4 * MIB))
            sweeper = subject.store(spec)
            await until_blobs_are_gone(sweeper)
            await until_blobs_are_gone(sweeper)
            await sweeper.close()
            assert await subject.leftovers(spec) == []

    async def test_a_look_at_the_store_makes_nothing(self, subject: BlobsSubject) -> None:
        """PrepareTarget asks whether it answers before it notes that there may be something to tear down."""
        spec = blobs_spec(subject.target)
        store = subject.store(spec)
        await store.open()
        await store.ready()
        assert all(spec.tag.replace("-", "_") in name.replace("-", "_") for name in store.resource_names())
        assert any(character.isdigit() for character in await store.provider())
        await store.close()
        await store.close()
        assert await subject.leftovers(spec) == []

    async def test_an_unreachable_store_is_found_out_and_is_an_outcome(self, subject: BlobsSubject) -> None:
        """A stage stops at once; a task writes down why."""
        store = subject.unreachable(blobs_spec(subject.target))
        async with asyncio.timeout(LOOK_LIMIT_S):
            with pytest.raises(TargetUnavailableError):
                await store.open()
            with pytest.raises(TargetUnavailableError):
                await store.ready()
        async with asyncio.timeout(GIVE_UP_LIMIT_S):
            put, (_, get) = await store.put("key", b"1"), await store.get("key")
        await store.close()
        assert [(each.outcome, each.error, each.requests) for each in (put, get)] == [
            (Outcome.FAILED, "connect: refused", 0)
        ] * 2

    @pytest.mark.parametrize("fault", [Cut("in-request", after_bytes=100_000), Drop("answer")])
    async def test_a_put_without_an_answer_is_unknown(self, subject: BlobsSubject, fault: Fault) -> None:
        """It may have been written; and what is left of the connection must not be taken for the next answer."""
        put, got = await _with_fault(subject, fault, writing=True)
        assert put.outcome is Outcome.UNKNOWN
        assert put.error in {"connection-reset", "connection-closed", "timeout"}
        assert got == _blob(4 * MIB)

    @pytest.mark.parametrize("fault", [Cut("in-answer", how="fin", after_bytes=20_000), Drop("answer")])
    async def test_half_a_blob_is_none(self, subject: BlobsSubject, fault: Fault) -> None:
        """A get that broke off has changed nothing, and what came of it is no blob."""
        get, got = await _with_fault(subject, fault, writing=False)
        assert get.outcome is Outcome.FAILED
        assert (get.blob_bytes, get.error in {"connection-reset", "connection-closed", "timeout"}) == (0, True)
        assert got == _blob(4 * MIB)


def _check_times(transfer: BlobTransfer, before_ns: int, size: int) -> None:
    assert (transfer.outcome, transfer.error, transfer.blob_bytes) == (Outcome.OK, "", size)
    assert before_ns - CLOCK_TOLERANCE_NS <= transfer.began_ns
    assert transfer.began_ns + transfer.whole_ns <= time.time_ns() + CLOCK_TOLERANCE_NS
    assert 0 < transfer.wait_ns <= transfer.whole_ns
    assert transfer.requests >= 1


async def _with_fault(subject: BlobsSubject, fault: Fault, *, writing: bool) -> tuple[BlobTransfer, bytes]:
    """Return what came of a transfer with a fault, and of a get after it."""
    spec = blobs_spec(subject.target)
    key, there = f"{spec.tag}/broken", f"{spec.tag}/there"
    async with holding(subject.store(spec)) as direct:
        await direct.put(there, _blob(4 * MIB))
        with fault_proxy(subject.upstream, subject.framing) as proxy:
            store = subject.through(spec, proxy)
            await store.open()
            proxy.follow(Rule(fault, match=(key if writing else there).encode(), times=1))
            if writing:
                transfer = await store.put(key, _blob(4 * MIB))
            else:
                blob, transfer = await store.get(there)
                assert blob == b""
            got = await _until_got(store, there)
            await store.close()
            assert sum(proxy.stats().faults.values()) == 1
        return transfer, got


async def _until_got(store: BlobStore, key: str) -> bytes:
    """Get a blob that is there, after a fault; what the fault has left of the connection may cost one attempt."""
    for _ in range(3):
        blob, transfer = await store.get(key)
        if transfer.outcome is Outcome.OK:
            return bytes(blob)
    pytest.fail(f"the store does not recover: {transfer}")
