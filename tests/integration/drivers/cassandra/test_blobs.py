"""CassandraBlobs against a real node: the contract, and what Cassandra alone has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.drivers.cassandra.conftest import ask
from tests.integration.drivers.subjects import ServedSubject, SubjectFixture
from tests.support.contracts.blobs import MIB, BlobsContract
from tests.support.contracts.blobs_subject import blobs_spec, holding

from stepbench.clock import AnchoredClock
from stepbench.drivers.cassandra.access import DEFAULT_LIMITS, keyspace_of
from stepbench.drivers.cassandra.blobs import CassandraBlobs
from stepbench.model.request import Outcome
from stepbench.settings import Settings

if TYPE_CHECKING:
    from stepbench.contracts.plan import TrialSpec
    from stepbench_tools.local.stores import LocalStore
    from stepbench_tools.local.stores.certificates import Certificates

pytestmark = pytest.mark.stores


class CassandraBlobsSubject(ServedSubject):
    """A node, read by statements of the tests' own."""

    target: dict[str, Any] = {"store": "cassandra"}  # noqa: RUF012 -- the protocol's attribute

    def __init__(self, endpoint: str, authority: str) -> None:
        super().__init__(endpoint)
        self._authority = authority

    def build(self, spec: TrialSpec, endpoint: str, limit_s: float | None = None) -> CassandraBlobs:
        """See `ServedSubject`."""
        limits = DEFAULT_LIMITS._replace(operate_s=limit_s) if limit_s else DEFAULT_LIMITS
        settings = Settings(
            results_table="", results_bucket="", cassandra_endpoint=endpoint, tls_authority=self._authority
        )
        return CassandraBlobs(spec, settings, AnchoredClock(), limits=limits)

    async def leftovers(self, spec: TrialSpec) -> list[str]:
        """Return keyspaces."""
        found = await ask(self.upstream, "SELECT keyspace_name FROM system_schema.keyspaces")
        return [name for row in found if (name := (row[0] or b"").decode()) == keyspace_of(spec.tag)]


@pytest.fixture
def subject(server: LocalStore, certificates: Certificates) -> CassandraBlobsSubject:
    """Return the folder's node."""
    return CassandraBlobsSubject(server.endpoint, str(certificates.authority))


class TestCassandraBlobs(SubjectFixture, BlobsContract):
    """The contract."""


@pytest.mark.parametrize("tls", [False, True])
async def test_a_blob_is_cut_into_chunks(subject: CassandraBlobsSubject, *, tls: bool) -> None:
    """Their number is the blob's cost; of one byte more than two there are three."""
    spec = blobs_spec(subject.target | {"tls": tls})
    blob = bytes(range(256)) * (4 * MIB // 256) + b"!"
    async with holding(subject.store(spec)) as store:
        put = await store.put(f"{spec.tag}/cut", blob)
        got, get = await store.get(f"{spec.tag}/cut")
    assert got == blob
    assert [put.requests, get.requests] == [3, 3]


@pytest.mark.parametrize("part", [1, 4])
async def test_a_missing_chunk_truncates_the_blob(subject: CassandraBlobsSubject, part: int) -> None:
    """Half an input would be computed with; the connection is of use all the same."""
    spec = blobs_spec(subject.target)
    key, whole = f"{spec.tag}/torn", f"{spec.tag}/whole"
    async with holding(subject.store(spec)) as store:
        for each in (key, whole):
            await store.put(each, bytes(9 * MIB))
        await ask(subject.upstream, f"DELETE FROM {keyspace_of(spec.tag)}.blobs WHERE key = '{key}' AND part = {part}")  # noqa: S608
        blob, torn = await store.get(key)
        assert (blob, torn.outcome, torn.error) == (b"", Outcome.FAILED, "truncated")
        assert (await store.get(whole))[0] == bytes(9 * MIB)
        assert await store.delete([key]) == 1
        assert await store.keys() == (whole,)


async def test_a_chunk_of_another_blob_truncates_it(subject: CassandraBlobsSubject) -> None:
    """An attempt that was given up may still write; with others under way the connection is of no more use."""
    spec = blobs_spec(subject.target)
    key = f"{spec.tag}/mixed"
    async with holding(subject.store(spec)) as store:
        await store.put(key, bytes(9 * MIB))
        table, values = f"{keyspace_of(spec.tag)}.blobs", f"blob_bytes = 100000, chunk = 0x{bytes(100_000).hex()}"
        await ask(subject.upstream, f"UPDATE {table} SET {values} WHERE key = '{key}' AND part = 1")  # noqa: S608
        blob, mixed = await store.get(key)
        assert (blob, mixed.outcome, mixed.error) == (b"", Outcome.FAILED, "truncated")
        assert (await store.put(key, bytes(MIB))).outcome is Outcome.OK
        assert (await store.get(key))[0] == bytes(MIB)


async def test_a_table_that_comes_later_is_used(subject: CassandraBlobsSubject) -> None:
    """PrepareTarget connects before it makes anything, and a refusal by name is not an end of the connection."""
    spec = blobs_spec(subject.target)
    store = subject.store(spec)
    await store.open()
    early = await store.put(f"{spec.tag}/early", b"1")
    async with holding(store):
        assert (await store.put(f"{spec.tag}/early", b"1")).outcome is Outcome.OK
    assert (early.outcome, early.error) == (Outcome.FAILED, "Invalid")


async def test_too_few_replicas_are_a_refusal(subject: CassandraBlobsSubject) -> None:
    """A quorum of three copies is not to be had on one node; of eight chunks no more are sent than were under way."""
    spec = blobs_spec(subject.target | {"consistency": "local_quorum", "replication": 3})
    async with holding(subject.store(spec)) as store:
        refused = await store.put(f"{spec.tag}/refused", bytes(16 * MIB))
    assert (refused.outcome, refused.error, refused.requests) == (Outcome.FAILED, "Unavailable", 4)
